//! What reads an archive of an older schema.

use super::lab::bytes;
use super::sandbox::snapshot;
use super::{archive, older};

#[test]
fn whatever_only_reads_works_on_an_old_archive_and_leaves_it_as_it_is() {
    for (_, frozen) in older() {
        let s = frozen.copied();
        let export = frozen.export();
        let id = export.as_object().unwrap().keys().next().unwrap().as_str();
        let before = snapshot(&s.data());
        let all: &[&[&str]] = &[
            &["health"],
            &["stats"],
            &["view", id],
            &["search", "lighthouse"],
            &["sessions", "list"],
            &["sessions", "show", id],
            &["export", id, "--format", "json"],
            &["mirror", "verify", "--deep"],
            &["doctor", "check"],
            &["doctor", "check", "--deep"],
            &["doctor", "archive-scan", "--deep"],
            &["doctor", "repair"],
            &["doctor", "backups", "list"],
            &["doctor", "backups", "create"],
            &["doctor", "backups", "verify", "b00000001", "--deep"],
            &["doctor", "backups", "verify", "g00000001", "--deep"],
            &["doctor", "runs", "list"],
            &["doctor", "runs", "show", "latest"],
        ];
        for words in all {
            s.run(words).expect(0);
            assert!(before == snapshot(&s.data()), "{words:?} changed something");
        }
        let repair = s.run(&["doctor", "repair"]).expect(0);
        assert_eq!(repair.text("/status"), "no-op", "{}", repair.stdout);
        // A person starts it, and it makes anew what is derived alone.
        let (live, content) = (archive(&s), bytes(&s));
        let fixed = s.run(&["doctor", "--fix"]).expect(0);
        assert_eq!(archive(&s), live, "{}", fixed.stdout);
        let kept = |all: &std::collections::BTreeMap<std::path::PathBuf, String>| {
            let mut all = all.clone();
            all.retain(|p, _| !p.starts_with(s.data().join("derived")));
            all.retain(|p, _| !p.starts_with(s.data().join("doctor")));
            all
        };
        assert_eq!(kept(&bytes(&s)), kept(&content));

        // People read the same in the new archive.
        let told = |words: &[&str], at: &str| s.run(words).expect(0).at(at).clone();
        let read = || {
            (
                told(&["view", id], "/messages"),
                told(&["search", "lighthouse"], "/hits"),
                told(&["sessions", "list"], "/sessions"),
            )
        };
        let then = read();
        s.run(&["index"]).expect(0);
        assert_ne!(archive(&s), live);
        assert_eq!(read(), then);
    }
}
