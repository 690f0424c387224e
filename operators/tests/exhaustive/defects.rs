//! The explorer is not blind: it finds each mistake that was made on purpose, in the common models.

use timely_splits::defect::{Defect, seed};

use crate::{BOUNDED, DRAINED, ONE_SPLIT, STATES_MAX, TWO_SPLITS, explored};

/// Seeds a mistake until it is dropped, so that a failing test leaves none behind.
struct Seeded;

impl Seeded {
    fn with(defect: Defect) -> Self {
        seed(Some(defect));
        Self
    }
}

impl Drop for Seeded {
    fn drop(&mut self) {
        seed(None);
    }
}

#[expect(clippy::print_stdout, reason = "a test tells what it did")]
fn is_found(defect: Defect) -> bool {
    let _seeded = Seeded::with(defect);
    println!("{defect}");
    let models = match defect {
        Defect::StopForgotten | Defect::NeverFinished => [&BOUNDED[0], &BOUNDED[1]],
        Defect::CutOverEarly | Defect::EndForgotten => [&DRAINED[0], &DRAINED[1]],
        _ => [&ONE_SPLIT, &TWO_SPLITS],
    };
    for model in models {
        if let Some(found) = explored(model, STATES_MAX).found {
            // The first line says where everybody starts.
            println!("{defect}: found after {} steps", found.story.len() - 1);
            return true;
        }
    }
    false
}

/// What is about things that the models leave out, so that they stay small. The simulation and the
/// coordinator's cases have them.
const LEFT_OUT: [Defect; 4] = [
    Defect::PauseForgotten,
    Defect::FailedKeptForEver,
    Defect::NotPrepared,
    Defect::SnapshotBelieved,
];

#[test]
fn every_seeded_defect_is_found_by_the_common_models() {
    let missed: Vec<_> = Defect::ALL
        .into_iter()
        .filter(|defect| !LEFT_OUT.contains(defect) && !is_found(*defect))
        .collect();

    assert_eq!(missed, []);
}
