//! Random damage to the bytes of the file.

use super::*;

/// Everything that can be read out of the archive, schema text included; `None` if reading fails.
fn contents(lab: &Lab) -> Option<Digest> {
    let conn = crate::store::sqlite::open_read(&lab.db()).ok()??;
    let mut hasher = blake3::Hasher::new();
    let mut add = |sql: &str| -> rusqlite::Result<()> {
        let mut statement = conn.prepare(sql)?;
        let n = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            for i in 0..n {
                hasher.update(format!("{:?}|", row.get_ref(i)?).as_bytes());
            }
        }
        Ok(())
    };
    add("SELECT type,name,tbl_name,sql FROM sqlite_schema").ok()?;
    for table in crate::store::archive::schema::TABLES {
        add(&format!("SELECT * FROM {} ORDER BY id", table.name)).ok()?;
    }
    Some(hasher.finalize().into())
}

fn big_lab() -> Lab {
    let lab = Lab::new();
    let mut files: Vec<Vec<Raw>> = vec![Vec::new(); 5];
    for i in 0..2100u32 {
        let text = format!("message {i} {}", "lorem ipsum ".repeat((i % 29) as usize));
        let session = format!("session {}", i % 5);
        files[(i % 5) as usize].push(match i % 7 {
            0 => plain(&session, &text),
            _ => msg(&session, &format!("uuid-{i}"), &text).at(i64::from(i)),
        });
    }
    lab.writing(|w| {
        for (i, lines) in files.iter().enumerate() {
            let name = format!("file {i}");
            feed(w, &name, &lines[..300], false).unwrap();
            feed(w, &name, lines, false).unwrap();
        }
    });
    lab.checkpoint();
    lab
}

fn detected(lab: &Lab) -> bool {
    let mut any = false;
    match verify_deep(&lab.root(), &|| false, &mut |_| any = true) {
        Ok(_) => any,
        Err(_) => true,
    }
}

/// Changes one byte in place.
#[allow(clippy::disallowed_types)]
fn put(lab: &Lab, at: usize, byte: u8) {
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(lab.db())
        .unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[byte], at as u64).unwrap();
}

#[test]
fn no_single_bit_flip_changes_the_archive_unnoticed() {
    let lab = big_lab();
    assert_eq!(lab.findings(), vec![]);
    let messages: u64 = lab.list().iter().map(|c| c.message_count).sum();
    assert!(messages >= 2000);
    let sound = contents(&lab).unwrap();
    let original = std::fs::read(lab.db()).unwrap();
    let flips: u64 = std::env::var("CASS_TEST_FLIPS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(1000);
    let mut state = 42u64;
    let (mut seen, mut harmless) = (0, 0);
    for n in 0..flips {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let bit = (state >> 20) as usize % (original.len() * 8);
        put(&lab, bit / 8, original[bit / 8] ^ (1 << (bit % 8)));
        if detected(&lab) {
            seen += 1;
        } else {
            assert_eq!(
                contents(&lab),
                Some(sound),
                "flip {n} of bit {bit} went unnoticed"
            );
            harmless += 1;
        }
        put(&lab, bit / 8, original[bit / 8]);
        if n % 100 == 0 {
            assert!(!detected(&lab), "a false alarm");
        }
    }
    println!(
        "{flips} flips in {} bytes: {seen} detected, {harmless} changed nothing",
        original.len()
    );
    assert!(seen > flips / 2);
}

#[test]
fn no_lost_zeroed_or_stale_page_goes_unnoticed() {
    let lab = big_lab();
    let sound = contents(&lab).unwrap();
    let original = std::fs::read(lab.db()).unwrap();
    let page = 4096;
    let pages = original.len() / page;
    for n in 0..pages {
        // One damage a page keeps this short; over all pages each is used often.
        let mut bytes = original.clone();
        let at = n * page..(n + 1) * page;
        match n % 4 {
            0 => bytes[at].fill(0),
            1 => bytes[at].fill(0xa5),
            2 => {
                let other = (n + 7) % pages * page;
                bytes.copy_within(other..other + page, n * page);
            }
            _ => bytes.truncate(n * page + 1),
        }
        std::fs::write(lab.db(), &bytes).unwrap();
        assert!(
            detected(&lab) || contents(&lab) == Some(sound),
            "page {n} went unnoticed"
        );
    }
}
