//! The WAL: its frames in order, and how far they are to be believed.

use std::collections::HashMap;

use super::medium::Medium;
use super::page::be32;
use crate::store::wal::checksum;

const HEADER: u64 = 32;
pub(super) const FRAME: usize = 24;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// Left from before the WAL was begun anew: older than the database.
    Stale,
    /// Behind the last commit: it never counted, or the end of the WAL is lost.
    Tail,
    /// Up to the last commit, whether or not the checksums hold up to there.
    Counted,
}

/// One frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub page: u32,
    pub standing: Standing,
    /// The last frame of the commit that it belongs to.
    commit: u32,
}

/// A WAL; an empty one where there is none.
#[derive(Debug)]
pub struct Log {
    pub(super) medium: Medium,
    pub(super) frames: Vec<Frame>,
    by_page: HashMap<u32, Vec<u32>>,
    stride: u64,
    /// Frames that SQLite would take: up to the last commit before the first that is damaged.
    taken: usize,
    last_commit: Option<usize>,
}

impl Log {
    /// The WAL in `medium`.
    #[must_use]
    pub fn of(medium: Medium) -> Log {
        let mut log = Log {
            medium,
            frames: Vec::new(),
            by_page: HashMap::new(),
            stride: 0,
            taken: 0,
            last_commit: None,
        };
        if let Some(size) = log.said_size() {
            log.set_size(size);
        }
        log
    }

    /// The page size that its header says.
    #[must_use]
    pub fn said_size(&self) -> Option<usize> {
        let mut head = [0u8; 32];
        self.medium.read(0, &mut head);
        let size = usize::try_from(be32(&head, 8)?).ok()?;
        (size.is_power_of_two() && (512..=65536).contains(&size)).then_some(size)
    }

    /// Whether there is more in it than SQLite takes, left-overs from before it was begun anew
    /// aside: it is damaged or cut, or a commit was never finished.
    #[must_use]
    pub fn has_more(&self) -> bool {
        if self.medium.is_empty() {
            return false;
        }
        if self.said_size().is_none() {
            return true;
        }
        self.frames
            .iter()
            .skip(self.taken)
            .any(|f| f.standing > Standing::Stale)
            || (!self.frames.is_empty() && self.taken == 0)
    }

    /// Reads the frames, of pages of this size.
    pub(super) fn set_size(&mut self, size: usize) {
        let stride = (size + FRAME) as u64;
        if self.stride == stride {
            return;
        }
        self.stride = stride;
        self.frames.clear();
        self.by_page.clear();
        self.taken = 0;
        self.last_commit = None;
        let count = self.medium.len().saturating_sub(HEADER).div_ceil(stride);
        let count = usize::try_from(count.min(u64::from(u32::MAX))).unwrap_or(0);
        if count == 0 {
            return;
        }
        let mut head = [0u8; 32];
        self.medium.read(0, &mut head);
        let big = match be32(&head, 0) {
            Some(0x377f_0682) => Some(false),
            Some(0x377f_0683) => Some(true),
            _ => None,
        };
        let sum = |bytes: &[u8], at| Some((be32(bytes, at)?, be32(bytes, at + 4)?));
        let mut running = big.map(|big| (checksum(&head[..24], (0, 0), big), big));
        let is_sound = running.map(|(s, _)| Some(s)) == Some(sum(&head, 24));
        if !is_sound {
            running = None;
        }
        let mut salts = [0u8; 8];
        salts.copy_from_slice(&head[16..24]);
        let mut buf = vec![0u8; size + FRAME];
        for i in 0..count {
            self.medium.read(self.content(i) - FRAME as u64, &mut buf);
            let (head, content) = buf.split_at(FRAME);
            // Where the header is lost, the first frame says which salts are the right ones.
            if i == 0 && !is_sound {
                salts.copy_from_slice(&head[8..16]);
            }
            let right = head[8..16] == salts;
            let commits = be32(head, 4).is_some_and(|n| n > 0);
            if let Some((before, big)) = running {
                let now = checksum(content, checksum(&head[..8], before, big), big);
                running = (right && Some(now) == sum(head, 16)).then_some((now, big));
            }
            if right && commits {
                self.last_commit = Some(i);
                if running.is_some() {
                    self.taken = i + 1;
                }
            }
            self.frames.push(Frame {
                page: be32(head, 0).unwrap_or(0),
                standing: if right {
                    Standing::Tail
                } else {
                    Standing::Stale
                },
                // For now, whether it ends a commit.
                commit: u32::from(commits),
            });
        }
        let mut commit = u32::MAX;
        for i in (0..count).rev() {
            let n = u32::try_from(i).unwrap_or(u32::MAX);
            let frame = &mut self.frames[i];
            if frame.commit > 0 {
                commit = n;
            }
            frame.commit = commit;
            if frame.standing == Standing::Tail && self.last_commit.is_some_and(|last| i <= last) {
                frame.standing = Standing::Counted;
            }
        }
        for (i, frame) in self.frames.iter().enumerate() {
            if frame.standing > Standing::Stale {
                let states = self.by_page.entry(frame.page).or_default();
                states.push(u32::try_from(i).unwrap_or(u32::MAX));
            }
        }
    }

    /// Where the page of a frame begins.
    pub(super) fn content(&self, frame: usize) -> u64 {
        HEADER + (frame as u64).saturating_mul(self.stride) + FRAME as u64
    }

    /// The frame that holds the byte at `at`.
    pub(super) fn frame_at(&self, at: u64) -> usize {
        let n = at.saturating_sub(HEADER).checked_div(self.stride);
        usize::try_from(n.unwrap_or(0)).unwrap_or(usize::MAX)
    }

    /// The last frame of the commit that a frame belongs to.
    pub(super) fn commit_of(&self, frame: usize) -> usize {
        self.frames
            .get(frame)
            .map_or(usize::MAX, |f| f.commit as usize)
    }

    /// The last frame with this page up to frame `last`.
    pub(super) fn state_of(&self, page: u32, last: usize) -> Option<usize> {
        let states = self.by_page.get(&page)?;
        let n = states.partition_point(|f| *f as usize <= last);
        states.get(n.checked_sub(1)?).map(|f| *f as usize)
    }

    /// The last frame with this page that counts.
    pub(super) fn last_counted(&self, page: u32) -> Option<usize> {
        self.state_of(page, self.last_commit?)
    }

    /// Whether any state of the page in it counts.
    pub(super) fn counts(&self, page: u32) -> bool {
        self.last_counted(page).is_some()
    }

    /// The last frame that counts.
    pub(super) fn end(&self) -> Option<usize> {
        self.last_commit
    }
}
