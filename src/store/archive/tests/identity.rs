//! Which conversation a record belongs to.

use super::*;

fn s(n: &str) -> Raw {
    msg("s", n, &format!("text {n}"))
}

#[test]
fn a_resumed_copy_adds_nothing_but_its_own_tail() {
    let lab = Lab::new();
    lab.index("a", &[s("1"), s("2"), s("3")]);
    lab.index("b", &[s("1"), s("2"), s("3"), s("4")]);
    let all = lab.list();
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].record_count, 4);
    assert_eq!(
        lab.texts(&all[0].id),
        ["text 1", "text 2", "text 3", "text 4"]
    );
    let b = lab.reader().source(key("b")).unwrap().unwrap();
    assert_eq!(b.accounting.duplicate.records, 3);
    assert_eq!(b.accounting.accounted(), b.accounting.length);
    assert_eq!(lab.reader().sources_of(&all[0].id).unwrap().len(), 2);
    lab.assert_sound();
}

#[test]
fn a_fork_with_copied_ids_and_a_new_session_id_is_a_conversation_of_its_own() {
    let lab = Lab::new();
    lab.index("a", &[s("1"), s("2")]);
    lab.index(
        "b",
        &[msg("fork", "1", "text 1"), msg("fork", "2", "text 2")],
    );
    let all = lab.list();
    assert_eq!(all.len(), 2);
    for c in &all {
        assert_eq!(lab.texts(&c.id), ["text 1", "text 2"]);
        assert_eq!(c.branch_of, None);
    }
    lab.assert_sound();
}

#[test]
fn of_a_file_and_its_prefix_either_may_grow() {
    for short_grows in [true, false] {
        for made in [s as fn(&str) -> Raw, |n: &str| plain("s", n)] {
            let lab = Lab::new();
            let long: Vec<Raw> = ["1", "2", "3"].map(made).to_vec();
            lab.index("long", &long);
            lab.index("short", &long[..1]);
            let grown: Vec<Raw> = ["1", "2", "3", "4"].map(made).to_vec();
            lab.index(if short_grows { "short" } else { "long" }, &grown);
            let all = lab.list();
            assert_eq!(all.len(), 1);
            assert_eq!(all[0].record_count, 4);
            // Then the other one follows.
            lab.index(if short_grows { "long" } else { "short" }, &grown);
            assert_eq!(lab.list().len(), 1);
            assert_eq!(lab.list()[0].record_count, 4);
            assert_eq!(lab.texts(&all[0].id).len(), 4);
            lab.assert_sound();
        }
    }
}

#[test]
fn tails_that_diverge_become_a_linked_branch_named_by_the_order_of_commits() {
    let head = [plain("s", "1"), plain("s", "2")];
    let a: Vec<Raw> = head
        .iter()
        .cloned()
        .chain([plain("s", "a3"), plain("s", "a4")])
        .collect();
    let b: Vec<Raw> = head
        .iter()
        .cloned()
        .chain([plain("s", "b3"), plain("s", "a4")])
        .collect();
    let mut ids = Vec::new();
    for order in [["a", "b"], ["a", "b"], ["b", "a"]] {
        let lab = Lab::new();
        for name in order {
            lab.index(name, if name == "a" { &a } else { &b });
        }
        let base = conversation_id(LOCAL, Provider::Claude, "s");
        assert_eq!(lab.texts(&base)[2], format!("{}3", order[0]));
        let branches = lab.reader().branches(&base).unwrap();
        assert_eq!(branches.len(), 1);
        let branch = &branches[0];
        assert_eq!(branch.branch_of.as_deref(), Some(base.as_str()));
        assert_eq!(branch.branch_at, Some(Digest::of(&head[1].bytes())));
        // A line without an id that happens to be in the other branch too stays in its own.
        assert_eq!(
            lab.texts(&branch.id),
            [format!("{}3", order[1]), "a4".to_owned()]
        );
        ids.push(branch.id.clone());
        // Each goes on in its own.
        let mut more = b.clone();
        more.push(plain("s", "b5"));
        lab.index("b", &more);
        assert_eq!(lab.list().len(), 2);
        let home = if order[0] == "b" { &base } else { &branch.id };
        assert_eq!(lab.texts(home).last().unwrap(), "b5");
        // A native id names the conversation, not the branch.
        assert_eq!(super::named(&lab.reader(), "s").unwrap().id, base);
        lab.assert_sound();
    }
    assert_eq!(ids[0], ids[1]);
    assert_ne!(ids[0], ids[2]);
}

#[test]
fn a_copy_of_a_branch_joins_it_and_a_third_way_is_a_third_branch() {
    let lab = Lab::new();
    let file = |tail: &[&str]| -> Vec<Raw> {
        ["1", "2"]
            .iter()
            .chain(tail)
            .map(|t| plain("s", t))
            .collect()
    };
    lab.index("a", &file(&["a3"]));
    lab.index("b", &file(&["b3", "b4"]));
    lab.index("copy of b", &file(&["b3"]));
    assert_eq!(lab.list().len(), 2);
    lab.index("copy of b", &file(&["b3", "c4"]));
    lab.index("d", &file(&["d3"]));
    let base = conversation_id(LOCAL, Provider::Claude, "s");
    let branches = lab.reader().branches(&base).unwrap();
    assert_eq!(branches.len(), 2);
    let deeper = lab.reader().branches(&branches[0].id).unwrap();
    assert_eq!(deeper.len(), 1);
    assert_eq!(lab.texts(&deeper[0].id), ["c4"]);
    lab.assert_sound();
}

#[test]
fn the_same_id_with_other_bytes_is_a_version() {
    let lab = Lab::new();
    lab.index("a", &[s("1"), s("2"), s("3")]);
    let edited = msg("s", "2", "edited");
    lab.index("b", &[s("1"), edited.clone(), s("3"), s("4")]);
    let all = lab.list();
    assert_eq!(all.len(), 1, "a version is no divergence");
    assert_eq!(all[0].version_count, 1);
    let mut seen = Vec::new();
    lab.reader()
        .messages(&all[0].id, &mut |m| {
            seen.push((m.message.text, m.superseded));
            Ok(())
        })
        .unwrap();
    let expected = [
        ("text 1", false),
        ("text 2", true),
        ("text 3", false),
        ("edited", false),
        ("text 4", false),
    ];
    assert_eq!(seen, expected.map(|(t, x)| (t.to_owned(), x)));
    // A rewrite of the first file with the edit brings nothing new.
    lab.rewrite("a", &[s("1"), edited, s("3"), s("4"), s("5")]);
    assert_eq!(lab.list().len(), 1);
    assert_eq!(lab.texts(&all[0].id).last().unwrap(), "text 5");
    lab.assert_sound();
}

#[test]
fn an_identical_line_is_counted_and_shown_once() {
    let lab = Lab::new();
    lab.index("a", &[s("1"), s("2"), s("1"), s("2"), s("1").clone()]);
    let all = lab.list();
    assert_eq!(all[0].record_count, 5);
    assert_eq!(lab.texts(&all[0].id), ["text 1", "text 2"]);
    let mut occurrences = Vec::new();
    lab.reader()
        .records(&all[0].id, &mut |r| {
            occurrences.push(r.occurrence);
            Ok(())
        })
        .unwrap();
    assert_eq!(occurrences, [1, 1, 2, 2, 3]);
    // Going on in a later append counts on.
    lab.index(
        "a",
        &[s("1"), s("2"), s("1"), s("2"), s("1"), s("1"), s("3")],
    );
    assert_eq!(lab.list()[0].record_count, 7);
    // A copy without the damage is level and may grow.
    lab.index("b", &[s("1"), s("2"), s("3"), s("4")]);
    assert_eq!(lab.list().len(), 1);
    lab.assert_sound();
}

#[test]
fn equal_lines_without_id_and_time_are_messages_of_their_own() {
    let lab = Lab::new();
    lab.index(
        "a",
        &[
            plain("s", "yes"),
            plain("s", "yes"),
            plain("s", "x").at(5),
            plain("s", "x").at(5),
        ],
    );
    assert_eq!(lab.texts(&lab.list()[0].id), ["yes", "yes", "x"]);
    lab.assert_sound();
}

#[test]
fn one_file_may_hold_several_sessions() {
    let lab = Lab::new();
    lab.index(
        "a",
        &[
            msg("m", "1", "m1"),
            msg("n", "1", "n1"),
            msg("m", "2", "m2"),
        ],
    );
    lab.index(
        "a",
        &[
            msg("m", "1", "m1"),
            msg("n", "1", "n1"),
            msg("m", "2", "m2"),
            msg("n", "2", "n2"),
        ],
    );
    let id = |n| conversation_id(LOCAL, Provider::Claude, n);
    assert_eq!(lab.texts(&id("m")), ["m1", "m2"]);
    assert_eq!(lab.texts(&id("n")), ["n1", "n2"]);
    lab.assert_sound();
}

#[test]
fn records_of_one_session_in_the_file_of_another_split_neither() {
    let own = |n: &str| msg("b", n, &format!("b{n}"));
    let stray = msg("b", "stray", "stray");
    for stray_first in [true, false] {
        let lab = Lab::new();
        let a = [msg("a", "1", "a1"), stray.clone(), msg("a", "2", "a2")];
        if stray_first {
            lab.index("a", &a);
            lab.index("b", &[own("1"), own("2")]);
        } else {
            lab.index("b", &[own("1"), own("2")]);
            lab.index("a", &a);
        }
        lab.index("b", &[own("1"), own("2"), plain("b", "b3")]);
        assert_eq!(lab.list().len(), 2);
        let mut texts = lab.texts(&conversation_id(LOCAL, Provider::Claude, "b"));
        texts.sort();
        assert_eq!(texts, ["b1", "b2", "b3", "stray"]);
        // The file of the session gets the stray record too, and a second copy stays level.
        let with = [
            own("1"),
            own("2"),
            plain("b", "b3"),
            stray.clone(),
            plain("b", "b4"),
        ];
        lab.index("b", &with);
        lab.index("b2", &with);
        assert_eq!(lab.list().len(), 2);
        lab.assert_sound();
    }
}

#[test]
fn facts_about_a_session_do_not_make_a_branch() {
    let lab = Lab::new();
    lab.index("a", &[s("1"), s("2"), fact("s", "one title")]);
    lab.index("b", &[fact("s", "other title"), s("1"), s("2"), s("3")]);
    let all = lab.list();
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].title.as_deref(), Some("other title"));
    assert_eq!(lab.texts(&all[0].id).len(), 3);
    lab.assert_sound();
}

#[test]
fn a_rewritten_file_keeps_what_it_held_and_adds_what_is_new() {
    let lab = Lab::new();
    lab.index("a", &[s("1"), s("2"), s("3")]);
    lab.rewrite("a", &[s("2"), s("3"), s("4"), plain("s", "5")]);
    let all = lab.list();
    assert_eq!(all.len(), 1);
    assert_eq!(
        lab.texts(&all[0].id),
        ["text 1", "text 2", "text 3", "text 4", "5"]
    );
    let source = lab.reader().source(key("a")).unwrap().unwrap();
    assert_eq!(source.epoch, 2);
    assert_eq!(source.accounting.duplicate.records, 2);
    assert_eq!(source.accounting.accounted(), source.accounting.length);
    lab.rewrite("a", &[s("1"), s("2"), s("3")]);
    assert_eq!(lab.list()[0].record_count, 5);
    lab.assert_sound();
}

#[test]
fn another_machine_is_another_conversation() {
    let lab = Lab::new();
    lab.index("a", &[s("1")]);
    lab.writing(|w| {
        let mut at = capture("a", 1, 9, false);
        at.source_id = "laptop";
        at.key = SourceKey::derive("laptop", Provider::Claude, Path::new("a"));
        let mut append = w.begin(at).unwrap();
        let (pieces, resume) = pieces(&[s("1")], 0, None);
        for p in &pieces {
            append.piece(p).unwrap();
        }
        append.finish(resume, 0).unwrap().unwrap();
    });
    assert_eq!(lab.list().len(), 2);
    assert!(matches!(
        lab.reader().named("s".as_ref(), &[]).unwrap(),
        crate::store::archive::Named::Several { total: 2, .. }
    ));
    lab.assert_sound();
}

/// Random copies, growth and rewrites: nothing is ever lost, and a second archive that gets the
/// same commits in the same order is equal.
#[test]
fn any_history_keeps_every_record_and_is_repeatable() {
    let mut state = 7u64;
    let mut random = move |n: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    for _ in 0..12 {
        let mut history: Vec<(String, Vec<Raw>, bool)> = Vec::new();
        let mut files: Vec<Vec<Raw>> = vec![vec![s("0")], vec![s("0")], vec![plain("s", "0")]];
        for step in 0..14 {
            let i = random(files.len() as u64) as usize;
            let restart = random(5) == 0;
            if restart {
                let other = files[random(files.len() as u64) as usize].clone();
                let keep = random(other.len() as u64) as usize;
                files[i] = other[keep..].to_vec();
            }
            for n in 0..random(4) {
                let text = format!("{step}.{}", random(3));
                files[i].push(match random(4) {
                    0 => plain("s", &text),
                    1 => fact("s", &text),
                    2 => msg("t", &text, &text).salted(&n.to_string()),
                    _ => msg("s", &text, &text).salted(&random(2).to_string()),
                });
            }
            history.push((format!("f{i}"), files[i].clone(), restart));
        }
        let play = || {
            let lab = Lab::new();
            lab.writing(|w| {
                for (name, lines, restart) in &history {
                    feed(w, name, lines, *restart).unwrap();
                }
            });
            lab
        };
        let (one, two) = (play(), play());
        one.assert_sound();
        let mut held = std::collections::BTreeSet::new();
        for c in one.list() {
            one.reader()
                .records(&c.id, &mut |r| {
                    held.insert(r.hash.0);
                    Ok(())
                })
                .unwrap();
            assert_eq!(one.texts(&c.id), two.texts(&c.id));
        }
        for (_, lines, _) in &history {
            for line in lines {
                assert!(held.contains(&Digest::of(&line.bytes()).0));
            }
        }
        assert_eq!(one.list(), two.list());
    }
}
