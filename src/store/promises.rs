//! What the coverage ledger promises, added up: the end of the chain, the last state of each
//! conversation, and the captures that were read.
//!
//! Memory grows with conversations and sources, not with lines.

use std::collections::{BTreeMap, HashMap};

use crate::disk::Root;
use crate::error::Result;
use crate::model::digest::Digest;
use crate::model::source::SourceKey;
use crate::store::accepted::{Acceptance, Accepted};
use crate::store::coverage::{self, LedgerProblem, Line};
use crate::store::generation::GenerationId;
use crate::store::run::Purpose;

/// Damaged lines that are kept one by one; the others are counted.
const LISTED: usize = 1000;

/// The ledger, read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promises {
    /// The archive, by the last whole line.
    pub archive: String,
    /// The last whole line that can be read.
    pub last: LastPromise,
    /// Of every conversation that a commit line names, by its public id.
    pub conversations: BTreeMap<String, Promised>,
    /// Of every source that a commit line names: the captures that were read.
    pub captures: HashMap<SourceKey, Captured>,
    /// Lines that are damaged or don't follow the line before; at most 1000.
    pub problems: Vec<LedgerProblem>,
    /// All of them.
    pub problem_count: u64,
    /// Lines that ended in a newline, damaged ones included.
    pub lines: u64,
    /// Of every generation that a repair or a restore promoted, the first line that says so.
    promoted: BTreeMap<GenerationId, u64>,
}

/// What the archive must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastPromise {
    /// The generation.
    pub generation: GenerationId,
    /// Its last commit; 0 when there is none.
    pub commit: u64,
    /// Head of its chain after that commit.
    pub head: Digest,
    /// First 32 hex digits of the BLAKE3 of the line.
    pub link: String,
    /// Whether it is the last line: nothing behind it is damaged.
    pub is_end: bool,
}

/// The most that was promised of a conversation. Counts only grow within a generation; where an
/// undo went back to a generation that held less, what was promised before stays promised, because
/// the captures it came from stay in the mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promised {
    /// Coverage keys.
    pub count: u64,
    /// Their sum.
    pub sum: Digest,
    /// The generation of the line.
    pub generation: GenerationId,
    /// Number of the line, counted from 1.
    pub line: u64,
}

/// The captures of a source that were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// Place of the source among all, by the first line that names it: 0, 1, …
    pub place: usize,
    /// Numbers of the captures: ascending ranges without overlap, both ends included.
    pub seqs: Vec<(u64, u64)>,
}

impl Captured {
    /// Whether capture `seq` was read.
    #[must_use]
    pub fn contains(&self, seq: u64) -> bool {
        let at = self.seqs.partition_point(|(_, to)| *to < seq);
        self.seqs.get(at).is_some_and(|(from, _)| *from <= seq)
    }

    /// How many captures were read.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.seqs
            .iter()
            .fold(0, |n: u64, (from, to)| n.saturating_add(to - from + 1))
    }

    fn remove(&mut self, seq: u64) {
        let at = self.seqs.partition_point(|(_, to)| *to < seq);
        let Some((from, to)) = self.seqs.get(at).copied().filter(|(from, _)| *from <= seq) else {
            return;
        };
        let left = (from < seq).then(|| (from, seq - 1));
        let right = (seq < to).then(|| (seq + 1, to));
        self.seqs.splice(at..=at, left.into_iter().chain(right));
    }

    fn add(&mut self, seq: u64) {
        let at = self.seqs.partition_point(|(_, to)| *to < seq);
        if self.seqs.get(at).is_some_and(|(from, _)| *from <= seq) {
            return;
        }
        // `at` is the first range behind `seq`.
        let joins_left = at > 0 && self.seqs[at - 1].1.checked_add(1) == Some(seq);
        let joins_right = seq.checked_add(1).is_some() && {
            let next = self.seqs.get(at).map(|(from, _)| *from);
            next == Some(seq + 1)
        };
        match (joins_left, joins_right) {
            (true, true) => {
                self.seqs[at - 1].1 = self.seqs[at].1;
                self.seqs.remove(at);
            }
            (true, false) => self.seqs[at - 1].1 = seq,
            (false, true) => self.seqs[at].0 = seq,
            (false, false) => self.seqs.insert(at, (seq, seq)),
        }
    }
}

impl Promises {
    /// Reads the ledger of a data directory. `None` when there is none, or no line in it that can
    /// be read. Damaged lines are passed over and listed. What was accepted as lost is no promise of
    /// the lines before; a later line promises it again.
    ///
    /// # Errors
    /// `io`.
    pub fn read(root: &Root) -> Result<Option<Promises>> {
        let mut last: Option<(u64, LastPromise, String)> = None;
        let mut conversations: BTreeMap<String, Promised> = BTreeMap::new();
        let mut captures: HashMap<SourceKey, Captured> = HashMap::new();
        let (mut problems, mut problem_count) = (Vec::new(), 0u64);
        let mut promoted: BTreeMap<GenerationId, u64> = BTreeMap::new();
        let accepted = Accepted::read(root)?.in_force;
        let lines = coverage::for_each_linked(
            root,
            &mut |number, line, link| {
                let (generation, commit, head) = line.promise();
                let promise = LastPromise {
                    generation: generation.clone(),
                    commit,
                    head,
                    link: link.to_owned(),
                    is_end: false,
                };
                last = Some((number, promise, line.archive().to_owned()));
                match &line {
                    // An undo goes back to what may hold less.
                    Line::Promote(p) if p.reason != Purpose::Undo.word() => {
                        promoted.entry(p.generation.clone()).or_insert(number);
                    }
                    _ => {}
                }
                if let Line::Commit(commit) = line {
                    for (key, seq) in commit.captures {
                        let place = captures.len();
                        let captured = captures.entry(key).or_insert(Captured {
                            place,
                            seqs: Vec::new(),
                        });
                        captured.add(seq);
                    }
                    for (id, count, sum) in commit.conversations {
                        if conversations.get(&id).is_some_and(|p| p.count > count) {
                            continue;
                        }
                        let promised = Promised {
                            count,
                            sum,
                            generation: commit.generation.clone(),
                            line: number,
                        };
                        conversations.insert(id, promised);
                    }
                }
                for accepted in accepted.iter().filter(|a| a.link.as_deref() == Some(link)) {
                    forget(accepted, &mut conversations, &mut captures);
                }
                Ok(())
            },
            &mut |problem| {
                problem_count += 1;
                if problems.len() < LISTED {
                    problems.push(problem);
                }
                Ok(())
            },
        )?;
        Ok(last.map(|(number, mut last, archive)| {
            last.is_end = number == lines;
            Promises {
                archive,
                last,
                conversations,
                captures,
                problems,
                problem_count,
                lines,
                promoted,
            }
        }))
    }

    /// Whether `generation` held, whole, what was promised: it was promoted behind that line, and is
    /// proven then; the line is its own; or it is the one that the ledger names last.
    #[must_use]
    pub fn was_held_by(&self, generation: &GenerationId, promised: &Promised) -> bool {
        let promoted = self.promoted.get(generation);
        promised.generation == *generation
            || promoted.is_some_and(|line| *line > promised.line)
            || self.last.generation == *generation
    }

    /// The sources in the order in which commit lines first name them.
    #[must_use]
    pub fn sources_in_order(&self) -> Vec<SourceKey> {
        let mut all: Vec<(usize, SourceKey)> =
            self.captures.iter().map(|(k, c)| (c.place, *k)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, key)| key).collect()
    }
}

/// Takes back what was accepted as lost.
fn forget(
    accepted: &Acceptance,
    conversations: &mut BTreeMap<String, Promised>,
    captures: &mut HashMap<SourceKey, Captured>,
) {
    for lost in &accepted.conversations {
        if lost.held == 0 {
            conversations.remove(&lost.conversation);
        } else if let Some(promised) = conversations.get_mut(&lost.conversation) {
            (promised.count, promised.sum) = (lost.held, lost.sum);
        }
    }
    for (key, seqs) in &accepted.captures {
        if let Some(captured) = captures.get_mut(key) {
            for lost in seqs.iter().filter(|lost| !lost.rows) {
                captured.remove(lost.seq);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use crate::disk::{Capture, WriterLock};
    use crate::store::coverage::{CommitLine, CoverageWriter, PromoteLine};

    fn key(n: u8) -> SourceKey {
        SourceKey([n; 16])
    }

    fn commit(generation: u32, n: u64, source: u8, seq: u64, holds: &[(&str, u64)]) -> Line {
        Line::Commit(CommitLine {
            generation: GenerationId::numbered(generation),
            archive: "a".into(),
            commit: n,
            head: Digest::of(&n.to_le_bytes()),
            captures: vec![(key(source), seq)],
            conversations: holds
                .iter()
                .map(|(id, count)| {
                    let sum = Digest::of(format!("{generation} {id} {count}").as_bytes());
                    ((*id).to_owned(), *count, sum)
                })
                .collect(),
            prev: String::new(),
        })
    }

    fn promote(generation: u32, n: u64, reason: &str) -> Line {
        Line::Promote(PromoteLine {
            generation: GenerationId::numbered(generation),
            archive: "a".into(),
            commit: n,
            head: Digest::of(&n.to_le_bytes()),
            reason: reason.into(),
            receipt: None,
            prev: String::new(),
        })
    }

    fn ledger(dir: &std::path::Path, lines: Vec<Line>) {
        let lock = WriterLock::acquire(Root::open_or_create(dir).unwrap(), "test", 0).unwrap();
        let (mut writer, _) = CoverageWriter::open(Capture::new(&lock)).unwrap();
        for mut line in lines {
            writer.append(&mut line).unwrap();
        }
        writer.sync().unwrap();
    }

    fn read(dir: &std::path::Path) -> Option<Promises> {
        Promises::read(&Root::open(dir).unwrap().unwrap()).unwrap()
    }

    #[test]
    fn the_most_that_was_promised_counts_also_after_an_undo() {
        let dir = tempfile::tempdir().unwrap();
        ledger(
            dir.path(),
            vec![
                promote(1, 0, "created"),
                commit(1, 1, 7, 1, &[("x", 2), ("y", 1)]),
                promote(2, 1, "rebuild"),
                commit(2, 2, 7, 2, &[("x", 5)]),
                promote(1, 1, "undo"),
                commit(1, 2, 3, 1, &[("x", 3), ("y", 4)]),
            ],
        );
        let p = read(dir.path()).unwrap();
        assert_eq!((p.archive.as_str(), p.lines), ("a", 6));
        assert_eq!(
            (p.last.generation.as_str(), p.last.commit),
            ("g00000001", 2)
        );
        assert!(p.last.is_end && p.problems.is_empty());
        let x = &p.conversations["x"];
        assert_eq!((x.count, x.line, x.sum), (5, 4, Digest::of(b"2 x 5")));
        assert_eq!(p.conversations["y"].count, 4);
        assert_eq!(p.captures[&key(7)].seqs, [(1, 2)]);
        assert_eq!(p.sources_in_order(), [key(7), key(3)]);
        let held = |n: u32, id: &str| {
            let generation = GenerationId::numbered(n);
            p.was_held_by(&generation, &p.conversations[id])
        };
        assert!(held(2, "x") && !held(2, "y") && !held(3, "x"));
        // The last one is believed to.
        assert!(held(1, "x") && held(1, "y"));
    }

    #[test]
    fn a_generation_held_what_was_promised_before_it_was_promoted_and_not_what_an_undo_passed() {
        let dir = tempfile::tempdir().unwrap();
        ledger(
            dir.path(),
            vec![
                promote(1, 0, "created"),
                commit(1, 1, 7, 1, &[("x", 2)]),
                promote(2, 1, "repair"),
                commit(2, 2, 7, 2, &[("y", 1)]),
                promote(1, 1, "undo"),
                promote(3, 3, "repair"),
            ],
        );
        let p = read(dir.path()).unwrap();
        let held = |n: u32, id: &str| {
            let generation = GenerationId::numbered(n);
            p.was_held_by(&generation, &p.conversations[id])
        };
        assert!(held(1, "x") && held(2, "x") && held(3, "x"));
        assert!(!held(1, "y") && held(2, "y") && held(3, "y"));
    }

    #[test]
    fn a_damaged_line_is_listed_and_the_others_count() {
        let dir = tempfile::tempdir().unwrap();
        ledger(
            dir.path(),
            vec![
                commit(1, 1, 7, 1, &[("x", 1)]),
                commit(1, 2, 7, 2, &[("x", 2)]),
                commit(1, 3, 7, 3, &[("x", 3)]),
            ],
        );
        let path = dir.path().join("coverage.jsonl");
        let sound = std::fs::read(&path).unwrap();
        let ends: Vec<usize> = memchr::memchr_iter(b'\n', &sound).collect();
        let mut damaged = sound.clone();
        damaged[ends[0] + 3] = b'\xff';
        std::fs::write(&path, &damaged).unwrap();
        let p = read(dir.path()).unwrap();
        // The line itself, and the one behind it still holds the hash of what stood there.
        assert_eq!(
            p.problems.iter().map(|x| x.line).collect::<Vec<_>>(),
            [2, 3]
        );
        assert_eq!(
            (p.problem_count, p.last.commit, p.last.is_end),
            (2, 3, true)
        );
        assert_eq!(p.captures[&key(7)].seqs, [(1, 1), (3, 3)]);
        assert!(!p.captures[&key(7)].contains(2));

        damaged = sound.clone();
        damaged[ends[1] + 3] = b'\xff';
        std::fs::write(&path, &damaged).unwrap();
        let p = read(dir.path()).unwrap();
        assert_eq!((p.last.commit, p.last.is_end), (2, false));
        let link = coverage_link(&sound[ends[0] + 1..ends[1]]);
        assert_eq!(p.last.link, link);

        // A torn last line was never acknowledged.
        std::fs::write(&path, &sound[..ends[2]]).unwrap();
        assert_eq!(read(dir.path()).unwrap().last.commit, 2);
        std::fs::write(&path, b"nothing\n").unwrap();
        assert_eq!(read(dir.path()), None);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read(dir.path()), None);
    }

    fn coverage_link(line: &[u8]) -> String {
        Digest::of(line).to_hex()[..32].to_owned()
    }

    #[test]
    fn captures_are_ranges_whatever_their_order() {
        let mut c = Captured {
            place: 0,
            seqs: Vec::new(),
        };
        for seq in [5, 1, 3, 2, 3, 9, 10, 8, u64::MAX] {
            c.add(seq);
        }
        assert_eq!(c.seqs, [(1, 3), (5, 5), (8, 10), (u64::MAX, u64::MAX)]);
        assert_eq!(c.count(), 8);
        let mut fewer = c.clone();
        for seq in [2, 5, 8, 4, u64::MAX] {
            fewer.remove(seq);
        }
        assert_eq!(fewer.seqs, [(1, 1), (3, 3), (9, 10)]);
        assert!([1, 3, 5, 10, u64::MAX].iter().all(|s| c.contains(*s)));
        assert!([0, 4, 6, 11].iter().all(|s| !c.contains(*s)));
    }
}
