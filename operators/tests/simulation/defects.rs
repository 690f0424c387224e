//! Whether the simulation notices mistakes.

use std::fmt::Write as _;

use timely_splits::defect::{self, Defect};

use crate::run::Case;
use crate::search::attempt;

/// How many of the common seeds each mistake may take, at most.
const SEEDS_MAX: u64 = 20_000;

/// What nothing can notice here, with the reason.
const UNSEEN: &[(Defect, &str)] = &[(
    Defect::SnapshotBelieved,
    "a simulated log holds nothing that a coordinator did not write; the cases C27 look for it",
)];

#[test]
fn every_seeded_defect_is_found_by_the_common_seeds() {
    let mut unseen = Vec::new();
    let mut report = String::new();
    for defect in Defect::ALL {
        defect::seed(Some(defect));
        let found = (0..SEEDS_MAX).find_map(|seed| {
            let case = Case::of(seed);
            attempt(&case, false).err().map(|failed| (seed, failed))
        });
        defect::seed(None);
        match found {
            Some((seed, (message, steps, _))) => {
                let what = message.lines().next().unwrap_or_default();
                writeln!(report, "{defect}: seed {seed}, after {steps} steps: {what}")
                    .expect("a string takes it");
            }
            None => unseen.push(defect),
        }
    }
    println!("{report}");
    let expected: Vec<_> = UNSEEN.iter().map(|(defect, _)| *defect).collect();
    assert_eq!(unseen, expected, "not found in {SEEDS_MAX} seeds");
}
