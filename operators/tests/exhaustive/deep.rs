//! Larger models, to be explored to the last state: `scripts/explore --deep`.

use crate::COMMON;
use crate::step::Budget;
use crate::world::Model;

/// More than any of these models has; beyond it memory runs out.
pub(crate) const STATES_MAX: usize = 8_000_000;

/// What the protocol itself has to stand, all of it in one history: a move, metadata that goes and
/// comes back, a crash, late pieces.
const PROTOCOL: Budget = Budget {
    total: 6,
    ticks: 1,
    moves: 1,
    removals: 1,
    additions: 1,
    crashes: 1,
    fetches: 2,
    ..Budget::NONE
};

pub(crate) const ONE_SPLIT: [Model; 4] = [
    Model {
        name: "one split, any three of the protocol, two ticks",
        splits: 1,
        records: 2,
        stop: None,
        drains: None,
        budget: Budget {
            total: 3,
            ticks: 2,
            moves: 2,
            crashes: 2,
            ..PROTOCOL
        },
    },
    Model {
        name: "one split, any three of everything, a tick",
        splits: 1,
        records: 2,
        stop: None,
        drains: None,
        budget: COMMON,
    },
    Model {
        name: "one split, any two of everything, two ticks",
        splits: 1,
        records: 2,
        stop: None,
        drains: None,
        budget: Budget {
            total: 2,
            ticks: 2,
            ..COMMON
        },
    },
    Model {
        name: "one split of three records, all of the protocol, a tick",
        splits: 1,
        records: 3,
        stop: None,
        drains: None,
        budget: PROTOCOL,
    },
];

pub(crate) const TWO_SPLITS: [Model; 3] = [
    Model {
        name: "two splits of one record, a move, a crash, late pieces, a tick",
        splits: 2,
        records: 1,
        stop: None,
        drains: None,
        budget: Budget {
            removals: 0,
            additions: 0,
            ..PROTOCOL
        },
    },
    Model {
        name: "two splits, any two of everything, a tick",
        splits: 2,
        records: 2,
        stop: None,
        drains: None,
        budget: Budget { total: 2, ..COMMON },
    },
    Model {
        name: "two splits of one record, any three of the protocol, a tick",
        splits: 2,
        records: 1,
        stop: None,
        drains: None,
        budget: Budget {
            total: 3,
            ..PROTOCOL
        },
    },
];
