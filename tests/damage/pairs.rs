//! R11: a damage of R1 to R5, and a second fault within its repair. Whatever came back before still
//! comes back.

use std::process::{Command, Stdio};

use crate::figures::{Rng, count, spread};
use crate::lab::{Lab, alarmed, copy_tree, errors, ran};
use crate::repairs::{damages, do_damage, exported, put_back};

const CHANGING: &str = "write,pwrite64,writev,fsync,fdatasync,rename,renameat,renameat2,unlink,\
                        unlinkat,ftruncate,mkdir,mkdirat,openat,linkat,copy_file_range";

/// The words that apply the plan of `doctor repair`, when there is one.
fn words(lab: &Lab) -> Option<Vec<String>> {
    let planned = lab.run(&["doctor", "repair", "--allow-repeated-repair"]);
    let argv = planned
        .json
        .pointer("/repair_plan/apply_argv")?
        .as_array()?;
    Some(
        argv.iter()
            .skip(1)
            .map(|w| w.as_str().unwrap().to_owned())
            .collect(),
    )
}

fn traced(lab: &Lab, options: &[String], words: &[String]) -> std::process::Output {
    let plain = lab.command(&[]);
    let mut c = Command::new("strace");
    c.args(["-f", "-qq"])
        .args(options)
        .arg(plain.get_program())
        .args(words)
        .arg("--json")
        .env_clear()
        .envs(plain.get_envs().filter_map(|(k, v)| Some((k, v?))))
        .stdin(Stdio::null());
    c.output().unwrap()
}

/// How many calls of the set the apply makes.
fn calls(lab: &Lab, words: &[String]) -> u64 {
    let log = lab.path().join("calls");
    let options = [
        "-o".to_owned(),
        log.to_string_lossy().into_owned(),
        "-e".to_owned(),
        format!("trace={CHANGING}"),
    ];
    let done = traced(lab, &options, words);
    assert!(done.status.success(), "{done:?}");
    std::fs::read_to_string(&log).unwrap().lines().count() as u64
}

#[test]
fn r11_a_fault_within_a_repair_never_makes_it_worse() {
    if Command::new("strace").arg("-V").output().is_err() {
        println!("passed over: needs strace");
        return;
    }
    let pairs = count("CASS_DAMAGE_PAIRS", 16);
    let lab = Lab::mixed(4096);
    let each = if pairs > 100 { 4 } else { 1 };
    let all: Vec<_> = damages(&lab, each, &mut Rng(11))
        .into_iter()
        .filter(|(_, files)| files.iter().any(|(rel, _)| !rel.contains("mirror")))
        .collect();
    let before = exported(&lab).unwrap();
    let mut rng = Rng(1111);
    let step = (all.len() as u64).div_ceil(pairs).max(1) as usize;
    let chosen: Vec<_> = all.iter().step_by(step).collect();
    let per = pairs.div_ceil(chosen.len() as u64).max(1);
    let cases: Vec<(usize, u64)> = (0..chosen.len()).map(|n| (n, rng.next())).collect();
    let ended: Vec<(u64, u64, Vec<String>)> = spread(cases.len(), |at| {
        let (n, seed) = &cases[at];
        let (what, files) = chosen[*n];
        let lab = lab.copy();
        do_damage(&lab, files);
        let damaged = lab.path().join("damaged");
        copy_tree(&lab.data(), &damaged);
        let Some(first) = words(&lab) else {
            return (0, 0, Vec::new());
        };
        let total = calls(&lab, &first);
        let mut rng = Rng(*seed);
        let (mut hit, mut wrong) = (0, Vec::new());
        for _ in 0..per {
            put_back(&lab, &damaged);
            let when = 1 + rng.below(total);
            let fault = match rng.below(4) {
                0 | 1 => "signal=KILL",
                2 => "error=EIO",
                _ => "error=ENOSPC",
            };
            let options = [
                "-o".to_owned(),
                "/dev/null".to_owned(),
                "-e".to_owned(),
                format!("inject={CHANGING}:{fault}:when={when}"),
            ];
            // The words name the plan of this very state.
            let out = traced(&lab, &options, &first);
            hit += u64::from(!out.status.success());
            let name = format!("{what}, then {fault} at call {when} of {total}");
            if let Err(why) = comes_back(&lab, &before) {
                wrong.push(format!("{name}: {why}"));
            }
        }
        (per, hit, wrong)
    });
    let done: u64 = ended.iter().map(|e| e.0).sum();
    let hit: u64 = ended.iter().map(|e| e.1).sum();
    let wrong: Vec<&String> = ended.iter().flat_map(|e| &e.2).collect();
    println!(
        "pairs | R11 a damage, then a killed or failing call within its repair: {done} pairs of {} damages, {hit} repairs did not end, {} worse than before |",
        chosen.len(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(hit > 0);
}

/// What an operator does next: what is recommended, until the check is clean.
fn comes_back(
    lab: &Lab,
    before: &std::collections::BTreeMap<crate::physical::Key, String>,
) -> Result<(), String> {
    let check = lab.run(&["doctor", "check"]);
    if check.code == 9 {
        return Err(format!("check: {}", check.json));
    }
    let mut said = Vec::new();
    for _ in 0..4 {
        if let Some(words) = words(lab) {
            let mut c = lab.command(&[]);
            let done = ran(c.args(&words).arg("--json").output().unwrap());
            said.push(format!("{} {}", done.code, done.json["err"]["message"]));
        }
        let index = lab.run(&["index", "--skip-lexical"]);
        said.push(format!(
            "index {} {}",
            index.code, index.json["err"]["message"]
        ));
        if !alarmed(&lab.check(&[])) {
            break;
        }
    }
    let checked = lab.check(&[]);
    if alarmed(&checked) {
        return Err(format!("{:?} after {said:?}", errors(&checked)));
    }
    match exported(lab) {
        Ok(after) if after == *before => Ok(()),
        Ok(after) => Err(format!(
            "{} of {} messages after {said:?}",
            after.len(),
            before.len()
        )),
        Err(e) => Err(format!("{e} after {said:?}")),
    }
}
