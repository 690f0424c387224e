//! What a run of the kit found.

use std::fmt::{self, Display};

/// One numbered sentence of a trait's contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Obligation {
    /// Its number in the documentation of the trait, such as `F1`.
    pub number: &'static str,
    /// What has to hold.
    pub sentence: &'static str,
}

/// Whether an obligation is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// Nothing was seen that breaks it.
    Kept,
    /// It was seen to be broken, in these words.
    Broken(String),
    /// It could not be looked at, for this reason.
    Unchecked(String),
}

/// What became of one obligation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Finding {
    /// The obligation.
    pub obligation: Obligation,
    /// Whether it is kept.
    pub outcome: Outcome,
}

/// What a run of the kit found: one finding an obligation, in the order of their numbers.
///
/// [`Display`] gives a line each.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a report that nobody reads finds nothing"]
pub struct ConformanceReport {
    findings: Vec<Finding>,
}

impl ConformanceReport {
    pub(super) fn new(findings: Vec<Finding>) -> Self {
        Self { findings }
    }

    /// All findings.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The numbers of the obligations that are broken.
    pub fn broken(&self) -> Vec<&'static str> {
        self.numbers(|outcome| matches!(outcome, Outcome::Broken(_)))
    }

    /// The numbers of the obligations that could not be looked at.
    pub fn unchecked(&self) -> Vec<&'static str> {
        self.numbers(|outcome| matches!(outcome, Outcome::Unchecked(_)))
    }

    /// Passes if every obligation is kept, but for those in `unchecked`, which the rig cannot show.
    ///
    /// # Panics
    ///
    /// Panics with the whole report if an obligation is broken, or was unexpectedly not looked at.
    pub fn assert_kept_but(&self, unchecked: &[&str]) {
        assert!(
            self.broken().is_empty() && self.unchecked() == unchecked,
            "expected all obligations to be kept, and {unchecked:?} not to be looked at\n{self}"
        );
    }

    fn numbers(&self, wanted: impl Fn(&Outcome) -> bool) -> Vec<&'static str> {
        let findings = self.findings.iter();
        findings
            .filter(|finding| wanted(&finding.outcome))
            .map(|finding| finding.obligation.number)
            .collect()
    }
}

impl Display for ConformanceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Finding {
            obligation: Obligation { number, sentence },
            outcome,
        } in &self.findings
        {
            match outcome {
                Outcome::Kept => writeln!(f, "{number} kept: {sentence}")?,
                Outcome::Broken(how) => writeln!(f, "{number} BROKEN: {sentence}\n    {how}")?,
                Outcome::Unchecked(why) => writeln!(f, "{number} not looked at: {why}")?,
            }
        }
        Ok(())
    }
}

/// A broken obligation, as a check sees it.
#[derive(Clone, Debug)]
pub(super) struct Breach {
    /// The obligation that is broken, which need not be the one that the check is about.
    pub(super) number: &'static str,
    pub(super) how: String,
}

/// What a check comes to.
pub(super) enum Done {
    Kept,
    /// The rig cannot show it, for this reason.
    Unchecked(&'static str),
}

pub(super) type Checked<T = ()> = Result<T, Breach>;

/// Breaks `number` unless `holds`.
pub(super) fn ensure(number: &'static str, holds: bool, how: impl FnOnce() -> String) -> Checked {
    if holds {
        Ok(())
    } else {
        Err(Breach { number, how: how() })
    }
}
