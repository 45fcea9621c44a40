//! The words that stand for enum values in the archive's columns.

use crate::model::conversation::RecordClass;
use crate::model::record::{MessageKind, Recovery, Role, SkipReason};

/// Makes `fn $to(value) -> word` and `fn $from(word) -> Option<value>` from one table.
macro_rules! words {
    ($type:ty, $to:ident, $from:ident, $($variant:ident = $word:literal),+ $(,)?) => {
        pub(super) const fn $to(value: $type) -> &'static str {
            match value { $(<$type>::$variant => $word),+ }
        }
        pub(super) fn $from(word: &str) -> Option<$type> {
            match word { $($word => Some(<$type>::$variant),)+ _ => None }
        }
    };
}

words!(
    Role,
    role,
    to_role,
    User = "user",
    Assistant = "assistant",
    Tool = "tool",
    System = "system",
    Meta = "meta"
);
words!(
    MessageKind,
    kind,
    to_kind,
    Text = "text",
    Reasoning = "reasoning",
    ToolCall = "tool-call",
    ToolResult = "tool-result",
    Summary = "summary",
    Attachment = "attachment"
);
words!(
    Recovery,
    recovery,
    to_recovery,
    Clean = "clean",
    NulTrimmed = "nul-trimmed",
    InvalidUtf8 = "invalid-utf8",
    LoneSurrogate = "lone-surrogate",
    Glued = "glued",
    Multiline = "multiline",
    TooDeep = "too-deep",
    Oversized = "oversized"
);
words!(
    SkipReason,
    reason,
    to_reason,
    NulBlock = "nul-block",
    Fragment = "fragment",
    TornTail = "torn-tail",
    Oversized = "oversized"
);
words!(
    RecordClass,
    class,
    to_class,
    Messages = "messages",
    Known = "known",
    Unknown = "unknown",
    Duplicate = "duplicate"
);
