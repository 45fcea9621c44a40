//! R8: `index` killed at random moments, over and over, with one more record each time. What a run
//! acknowledged is there, and the leavings of killed runs don't add up.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use super::sandbox::{Sandbox, age};
use super::sequences::{held, session, source};

#[test]
fn an_index_killed_at_random_loses_nothing_that_it_acknowledged() {
    let kills = if super::is_long() { 500 } else { 60 };
    let s = Sandbox::in_memory();
    let path = s.home().join(source(1));
    let (mut records, mut killed, mut ended) = (Vec::new(), 0u32, 0u32);
    let mut acknowledged: BTreeSet<String> = BTreeSet::new();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    while killed < kills {
        records.push(u32::try_from(records.len()).unwrap());
        s.put(&source(1), &session(1, &records));
        age(&path, 1_000_000 - records.len() as u64);
        let mut command = s.command(&["index", "--json"]);
        let mut child = command
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_micros(random % 90_000));
        let _ = child.kill();
        match child.wait().unwrap().code() {
            None => killed += 1,
            Some(0) => {
                ended += 1;
                acknowledged.extend(records.iter().map(|n| format!("tok1x{n:05}")));
                let now = held(&s.data()).unwrap();
                assert!(acknowledged.is_subset(&now), "after run {}", records.len());
            }
            Some(code) => panic!("exit {code} after {killed} kills"),
        }
    }
    s.run(&["index"]).expect(0);
    let now = held(&s.data()).unwrap();
    assert_eq!(now.len(), records.len());
    s.run(&["doctor", "check", "--deep"]).expect(0);
    let generations = fs::read_dir(s.data().join("generations")).unwrap().count();
    assert_eq!(generations, 1, "generations of killed runs are left");
    let built = fs::read_dir(s.data().join("derived/lexical")).unwrap();
    let folders = built
        .filter(|e| e.as_ref().unwrap().path().is_dir())
        .count();
    assert!(folders <= 2, "{folders} folders of search indexes");
    println!(
        "torture | R8 `index` killed at random ({ended} runs ended between) | {killed} | {killed} | 0 |"
    );
}
