//! An old archive that an earlier repair could not save all of: what is there comes along, and what it
//! lost then is no reason to stay behind.

use cass::store::archive::SCHEMA_VERSION;

use super::frozen::{Frozen, exported, folder};
use super::lab::{current, db};
use super::migration::rows;
use super::sandbox::Sandbox;
use super::{applied, archive, present, same, schema, sound, undone};

fn lossy() -> Frozen {
    let name = folder(1).with_file_name("schema-1-lossy");
    Frozen { folder: name }
}

/// Tables whose rows are the same; those of commits that brought no record are put with the next.
const CONTENT: [&str; 3] = ["conversations", "messages", "skips"];

#[test]
fn what_an_earlier_repair_lost_keeps_nothing_back() {
    for is_on_record in [true, false] {
        let s = lossy().copied();
        if !is_on_record {
            std::fs::remove_dir_all(s.data().join("doctor/accepted")).unwrap();
        }
        is_migrated_and_back(&s);
    }
}

fn is_migrated_and_back(s: &Sandbox) {
    sound(s);
    let (id, before, then) = (current(s), archive(s), rows(&db(s)));
    let export = exported(s);
    assert_eq!(export.as_object().unwrap().len(), 4);
    let index = s.run(&["index"]).expect(0);
    assert_eq!(index.at("/migrated")["new_schema"], SCHEMA_VERSION);
    assert_eq!(schema(&db(s)), present());
    let now = rows(&db(s));
    for table in CONTENT {
        assert!(now[table] == then[table], "{table}");
    }
    assert_eq!(now["records"].len(), then["records"].len());
    same(&exported(s), &export);
    sound(s);
    let again = s.run(&["index"]).expect(0);
    assert_eq!(again.text("/status"), "no-op");
    undone(s, &id, &before);
}

/// Nor is a backup of it, which is put into the present schema when it is restored.
#[test]
fn its_backup_is_restored() {
    let s = lossy().copied();
    let export = exported(&s);
    let backup = applied(&s, &["doctor", "backups", "create"]);
    let backup = backup.text("/backup_id").to_owned();
    for is_migrated in [false, true] {
        if is_migrated {
            s.run(&["index"]).expect(0);
        }
        let (id, before) = (current(&s), archive(&s));
        applied(&s, &["doctor", "backups", "restore", &backup]);
        assert_eq!(schema(&db(&s)), present());
        same(&exported(&s), &export);
        sound(&s);
        undone(&s, &id, &before);
    }
}
