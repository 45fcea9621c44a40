//! Nothing that a terminal would act on reaches it (S6).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use cass::cli::sanitise::acts_or_hides;

use super::sandbox::{Run, Sandbox};

/// Fails when stdout or stderr holds a raw control or hidden character.
pub fn nothing_raw(run: &Run) {
    for text in [
        String::from_utf8_lossy(&run.stdout),
        run.stderr.as_str().into(),
    ] {
        let raw = text
            .chars()
            .find(|c| acts_or_hides(*c) && *c != '\n' && *c != '\t');
        assert_eq!(raw, None, "{text:?}");
    }
}

fn strings() -> Vec<OsString> {
    let mut all: Vec<Vec<u8>> = [
        "\x1b[31mred",
        "\x1b]0;title\x07",
        "\x1b]52;c;aGk=\x07",
        "\x1b]8;;x\x1b\\",
        "\x1bPq\x1b\\",
        "\u{9b}31m",
        "\u{202e}gpj.exe",
        "\u{2066}a\u{2069}",
        "a\u{200b}b",
        "\r\nok: fine\n",
        "\x08\x08",
        "\x7f",
        "\u{feff}",
        "\u{85}",
        "\u{2028}next",
        "\u{e0041}tag",
    ]
    .iter()
    .map(|s| s.as_bytes().to_vec())
    .collect();
    all.push(b"\x9b31m".to_vec());
    all.push(b"\xed\xa0\x80".to_vec());
    all.into_iter()
        .map(|b| OsStr::from_bytes(&b).to_owned())
        .collect()
}

#[test]
fn hostile_names_in_every_place_of_the_command_line() {
    let sandbox = Sandbox::new();
    for hostile in strings() {
        let mut dir = OsString::from("--data-dir=");
        dir.push(&hostile);
        let lines: [Vec<OsString>; 8] = [
            vec![dir.clone(), "health".into()],
            vec![dir.clone(), "sessions".into(), "list".into()],
            vec![dir, "mirror".into(), "verify".into()],
            vec![
                "sessions".into(),
                "show".into(),
                "--".into(),
                hostile.clone(),
            ],
            vec!["mirror".into(), "list".into(), "--".into(), hostile.clone()],
            vec![
                "sessions".into(),
                "list".into(),
                "--provider".into(),
                hostile.clone(),
            ],
            vec![hostile.clone()],
            vec!["index".into(), hostile.clone()],
        ];
        for line in lines {
            for colour in ["--color=never", "--color=auto"] {
                let run = sandbox.run(
                    line.iter().map(OsString::as_os_str).chain(
                        [OsStr::new(colour)]
                            .into_iter()
                            .filter(|_| !line.contains(&"--".into())),
                    ),
                );
                nothing_raw(&run);
            }
        }
    }
}
