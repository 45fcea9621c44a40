//! Whether a captured version can be read from the mirror.

use std::collections::{HashMap, HashSet};
use std::io::Read;

use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;
use crate::model::interrupt::Interrupt;
use crate::model::source::SourceKey;
use crate::store::mirror::{CaptureLine, Head, MirrorReader};

/// Answers that are remembered: one database may hold a thousand sessions.
const REMEMBERED: usize = 1024;
/// Unreadable captures that are remembered to the end; normally there is none.
const MAX_BAD: usize = 20_000;
const BLOCK: usize = 256 << 10;

/// Tells whether captures can be read. Without `deep` a capture counts when its ledger line is
/// whole and every object of it lies where it belongs; with it, when every byte was read and is
/// what was promised.
pub(super) struct Captures<'a> {
    mirror: &'a MirrorReader<'a>,
    /// Opened when a capture was promised after `mirror` was.
    newer: Option<MirrorReader<'a>>,
    deep: bool,
    interrupt: &'a Interrupt,
    known: HashMap<(SourceKey, u64), Option<Digest>>,
    /// The newest captures that can't be read.
    bad: HashSet<SourceKey>,
    /// Whether the newest capture of every source was looked at, and `bad` has all that it must.
    swept: bool,
}

impl<'a> Captures<'a> {
    pub(super) fn new(mirror: &'a MirrorReader<'a>, deep: bool, interrupt: &'a Interrupt) -> Self {
        Captures {
            mirror,
            newer: None,
            deep,
            interrupt,
            known: HashMap::new(),
            bad: HashSet::new(),
            swept: false,
        }
    }

    /// Whether the newest capture of a source can be read.
    pub(super) fn newest(&mut self, head: &Head) -> Result<bool> {
        let key = head.ident.key;
        let readable = self.look(key, head.seq)? == Some(head.hash);
        if !readable && self.bad.len() < MAX_BAD {
            self.bad.insert(key);
        }
        Ok(readable)
    }

    /// The newest capture of every source was looked at.
    pub(super) fn swept(&mut self) {
        self.swept = self.bad.len() < MAX_BAD;
    }

    /// Whether capture `seq` of a source can be read; with `hash`, whether it is also that content.
    /// `head` is the newest one, where it is known.
    pub(super) fn readable(
        &mut self,
        key: SourceKey,
        seq: u64,
        hash: Option<Digest>,
        head: Option<&Head>,
    ) -> Result<bool> {
        if let Some(head) = head.filter(|h| self.swept && h.seq == seq) {
            let same = hash.is_none_or(|hash| hash == head.hash);
            return Ok(same && !self.bad.contains(&key));
        }
        let found = match self.known.get(&(key, seq)) {
            Some(found) => *found,
            None => {
                let found = self.look(key, seq)?;
                if self.known.len() >= REMEMBERED {
                    self.known.clear();
                }
                self.known.insert((key, seq), found);
                found
            }
        };
        Ok(found.is_some_and(|content| hash.is_none_or(|hash| hash == content)))
    }

    fn look(&mut self, key: SourceKey, seq: u64) -> Result<Option<Digest>> {
        loop {
            let mirror = self.newer.as_ref().unwrap_or(self.mirror);
            let found = self.look_in(mirror, key, seq)?;
            if found.is_some() {
                return Ok(found);
            }
            match mirror.newer()? {
                Some(newer) => self.newer = Some(newer),
                None => return Ok(None),
            }
        }
    }

    fn look_in(
        &self,
        mirror: &MirrorReader<'_>,
        key: SourceKey,
        seq: u64,
    ) -> Result<Option<Digest>> {
        let Some(line) = mirror.capture(key, seq)? else {
            return Ok(None);
        };
        let contents = std::iter::once((line.recipe, line.len, line.hash))
            .chain(line.group.iter().map(|m| (m.recipe, m.len, m.hash)));
        for (recipe, len, hash) in contents {
            if !self.content(mirror, recipe, len, hash)? {
                return Ok(None);
            }
        }
        Ok(Some(line.hash))
    }

    fn content(
        &self,
        mirror: &MirrorReader<'_>,
        recipe: Digest,
        len: u64,
        hash: Digest,
    ) -> Result<bool> {
        let mut content = match mirror.open_content(recipe, len) {
            Ok(content) => content,
            Err(e) if is_damage(&e) => return Ok(false),
            Err(e) => return Err(e),
        };
        if !self.deep {
            return Ok(true);
        }
        let mut hasher = blake3::Hasher::new();
        let mut block = vec![0; BLOCK];
        loop {
            self.interrupt.check()?;
            match content.read(&mut block) {
                Ok(0) => return Ok(Digest::from(hasher.finalize()) == hash),
                Ok(n) => {
                    hasher.update(block.get(..n).unwrap_or_default());
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return Ok(false),
            }
        }
    }
}

fn is_damage(e: &Error) -> bool {
    matches!(
        e.kind(),
        ErrorKind::VerifyFailed | ErrorKind::MirrorDamaged | ErrorKind::ArchiveCorrupt
    )
}

/// The whole content of a captured file of at most `limit` bytes, a member of its group by what its
/// name adds; `None` when it can't be read or there is none.
pub(super) fn content(
    mirror: &MirrorReader<'_>,
    line: &CaptureLine,
    member: &str,
    limit: u64,
) -> Option<Vec<u8>> {
    let (recipe, len) = if member.is_empty() {
        (line.recipe, line.len)
    } else {
        let found = line.group.iter().find(|m| m.name == member)?;
        (found.recipe, found.len)
    };
    if len > limit {
        return None;
    }
    let mut bytes = Vec::new();
    let mut content = mirror.open_content(recipe, len).ok()?;
    content.read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
