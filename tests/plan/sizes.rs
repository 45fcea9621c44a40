//! Documents of plans are small: what is said twice, or was approved, is said once.

use super::place::{Place, each};
use super::states::{KINDS, State};

/// What a person or an agent reads in one look.
const LIMIT: usize = 6 << 10;

#[test]
fn the_documents_of_every_kind_of_plan_are_small_and_have_what_is_promised() {
    each(KINDS.len(), 2, |i| {
        let state: &State = KINDS[i].state;
        let kind = state.words.join(" ");
        let p = Place::copy_of(&state.path());
        let plan = |ran: &super::sandbox::Ran| {
            let plan = ran.json.as_object().unwrap().values();
            let mut found = plan.filter(|v| v.get("apply_argv").is_some());
            found.next().cloned()
        };
        let planned = &state.planned;
        let size = planned.stdout.len();
        // What would be lost is told in the document, and covered.
        let loses = planned.text("/risk_level") == "high";
        let limit = if loses { LIMIT + (2 << 10) } else { LIMIT };
        assert!(size <= limit, "{kind}: {size} bytes: {}", planned.stdout);
        let brief = plan(planned).unwrap();
        assert!(brief["covered"].get("actions").is_none(), "{kind}");
        // In full it is what the fingerprint is of, without a look at anything else.
        let mut words = state.words.clone();
        words.push("--detail=full".to_owned());
        let full = plan(&p.run(&words).expect(0)).unwrap();
        assert_eq!(full["covered"]["actions"], brief["actions"], "{kind}");
        assert_eq!(
            full["plan_fingerprint"], brief["plan_fingerprint"],
            "{kind}"
        );
        let of = cass::plan::Fingerprint::of_covered(&full["covered"]).unwrap();
        assert_eq!(of.as_str(), state.fingerprint, "{kind}");

        let applied = p.run(&state.apply).expect(0);
        let size = applied.stdout.len();
        assert!(size <= limit, "{kind}: {size} bytes: {}", applied.stdout);
        for pointer in [
            "/operation_outcome/kind",
            "/post_repair_probes",
            "/receipt/path",
            "/receipt/actions/0/outcome",
            "/coverage_summary/before",
            "/coverage_summary/after",
            "/rollback",
            "/candidate_staging/status",
            "/source_authority/authority_level",
            "/safety_gates",
            "/forensic_bundle/artifact_manifest_path",
        ] {
            applied.at(pointer);
        }
        let done = plan(&applied).unwrap();
        assert_eq!(done["actions"], brief["actions"], "{kind}");
        for field in ["apply_command", "apply_argv", "rungs", "reasons"] {
            assert!(done.get(field).is_some(), "{kind}: {field}");
        }
        assert!(done.get("covered").is_none(), "{kind}");
    });
}
