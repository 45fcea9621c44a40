//! Whose a conversation is: what is missing is told by harness and conversation, and the candidate's
//! manifest says how many conversations each authority gave.

use std::fs;

use serde_json::{Value, json};

use super::lab::{apply, back_up, claude, damage_text, db, exported, flip, indexed, plan};
use super::sandbox::Sandbox;

const PACK: &str = "raw-mirror/packs/00000001.pack";

fn pack_len(s: &Sandbox) -> usize {
    fs::metadata(s.data().join(PACK)).map_or(0, |m| usize::try_from(m.len()).unwrap())
}

/// Indexes one more session, and gives where the pack ends then.
fn one_more(s: &Sandbox, id: u32, word: &str) -> usize {
    let text = String::from_utf8(claude(30)).unwrap();
    let text = text
        .replace("8000-00000000000", &format!("8000-0000000000{id}"))
        .replace("answer", word);
    let name = format!("00000000-0000-4000-8000-0000000000{id}1");
    s.put(
        &format!(".claude/projects/-src-b/{name}.jsonl"),
        text.as_bytes(),
    );
    s.run(&["index"]).expect(0);
    pack_len(s)
}

#[test]
fn the_manifest_counts_the_conversations_of_each_authority() {
    // Two sessions that the mirror gives; one that only the backup has whole; one that came after it
    // and that the archive's rows give.
    let s = indexed();
    let in_backup = one_more(&s, 71, "backed");
    back_up(&s, "first");
    let in_archive = one_more(&s, 72, "archived");
    let truth = exported(&s);
    assert_eq!(truth.len(), 4);
    flip(&s.data().join(PACK), in_backup - 40);
    flip(&s.data().join(PACK), in_archive - 40);
    damage_text(&db(&s), b"backed 7:");

    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    let applied = apply(&s, &planned).expect(0);
    assert_eq!(applied.text("/status"), "applied", "{}", applied.stdout);
    assert_eq!(exported(&s), truth);
    let manifest = fs::read(db(&s).with_file_name("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(
        manifest["provenance"]["conversations"],
        json!({"archive": 1, "backup": 1, "mirror": 2}),
        "{manifest}"
    );
}

#[test]
fn what_is_missing_is_told_by_harness_and_conversation() {
    let s = indexed();
    let lost = "00000000-0000-4000-8000-0000000000711";
    let end = one_more(&s, 71, "lost");
    flip(&s.data().join(PACK), end - 40);
    fs::write(db(&s), [7u8; 50_000]).unwrap();

    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    let missing = planned.at("/coverage_summary/missing").as_array().unwrap();
    let told: Vec<(&str, &str)> = missing
        .iter()
        .map(|m| {
            let text = |key: &str| m[key].as_str().unwrap_or("-");
            (text("provider"), text("native_id"))
        })
        .collect();
    assert_eq!(told, [("claude", lost)], "{}", planned.stdout);
    let gates = planned.at("/safety_gates").as_array().unwrap();
    let gate = gates.iter().find(|g| g["gate"] == "coverage").unwrap();
    assert_eq!(gate["verdict"], "warn");
    let reason = gate["reason"].as_str().unwrap();
    assert!(
        reason.contains("(claude: 30 records of 1 conversation)"),
        "{reason}"
    );
    assert!(!reason.contains("codex"), "{reason}");
}
