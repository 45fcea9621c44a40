//! The outermost object of a record, as raw fields.

use crate::ingest::parse::json::raw_object;

raw_object! {
    /// The fields of a record's outermost object that any reader looks at.
    pub(crate) struct Line {
        kind = "type",
        subtype = "subtype",
        timestamp = "timestamp",
        payload = "payload",
        record_type = "record_type",
        id = "id",
        uuid = "uuid",
        parent_uuid = "parentUuid",
        logical_parent_uuid = "logicalParentUuid",
        session_id = "sessionId",
        agent_id = "agentId",
        is_sidechain = "isSidechain",
        is_meta = "isMeta",
        is_compact_summary = "isCompactSummary",
        cwd = "cwd",
        version = "version",
        message = "message",
        content = "content",
        operation = "operation",
        attachment = "attachment",
        data = "data",
        summary = "summary",
        custom_title = "customTitle",
        ai_title = "aiTitle",
        relocated_cwd = "relocatedCwd",
        forked_from = "forkedFrom",
        role = "role",
        name = "name",
        arguments = "arguments",
        input = "input",
        action = "action",
        output = "output",
        call_id = "call_id",
        set = "$set",
        rewind = "$rewindTo",
    }
}
