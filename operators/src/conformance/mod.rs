//! Tests that any implementation of this crate's traits must pass.
//!
//! Whoever writes a source implements [`SplitFetcher`](crate::fetcher::SplitFetcher) and
//! [`SplitDiscovery`](crate::discovery::SplitDiscovery), and sometimes a
//! [`BindingLog`](crate::log::BindingLog). The contract of each is a list of numbered sentences, and
//! the operators rely on every one of them: a fetcher that skips a piece loses records, and nothing
//! above it can tell. This kit runs an implementation against those sentences and says which are
//! broken, and how.
//!
//! What the kit cannot know, it asks a *rig* for, a small trait that the tests of the source
//! implement: [`FetcherRig`], [`DiscoveryRig`] or [`LogRig`] make the thing under test, and write
//! what it is to read. Then one test is enough:
//!
//! ```no_run
//! # use timely_splits::conformance::{FetcherRig, Kit};
//! # fn test<MyRig: FetcherRig>(my_rig: fn() -> MyRig) {
//! Kit::new().fetcher(my_rig).assert_kept_but(&[]);
//! # }
//! ```
//!
//! What a rig cannot show (it has no way to cut the fetcher off, for example) is reported as not
//! looked at, and has to be named in that call: nothing is left out in silence.
//!
//! Each check has a rig and a thread of its own, so that an implementation that hangs is reported
//! like any other. The module is there with the feature `conformance`, which belongs in
//! `[dev-dependencies]`.

mod discovery;
mod fetcher;
mod log;
mod report;
mod run;

use std::time::Duration;

pub use self::discovery::DiscoveryRig;
pub use self::fetcher::FetcherRig;
pub use self::log::LogRig;
pub use self::report::{ConformanceReport, Finding, Obligation, Outcome};

/// Runs the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a kit checks nothing by itself"]
pub struct Kit {
    patience: Duration,
    quick: Duration,
}

impl Kit {
    /// A kit with its defaults: what is to come has to come within ten seconds, and the quickest of
    /// five calls has to return within 50 ms.
    pub fn new() -> Self {
        Self {
            patience: Duration::from_secs(10),
            quick: Duration::from_millis(50),
        }
    }

    /// Waits this long for what is to come before it is said to be missing.
    ///
    /// Longer: a slow machine breaks no obligation. Shorter: a broken implementation is told sooner.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Takes a call for one that blocks if the quickest of five takes longer.
    pub fn quick(mut self, quick: Duration) -> Self {
        self.quick = quick;
        self
    }

    /// Checks a [`SplitFetcher`](crate::fetcher::SplitFetcher); `make` makes a rig for each check.
    pub fn fetcher<R: FetcherRig>(
        self,
        make: impl Fn() -> R + Send + Sync + 'static,
    ) -> ConformanceReport {
        run::run(self, make, fetcher::suite())
    }

    /// Checks a [`SplitDiscovery`](crate::discovery::SplitDiscovery).
    pub fn discovery<R: DiscoveryRig>(
        self,
        make: impl Fn() -> R + Send + Sync + 'static,
    ) -> ConformanceReport {
        run::run(self, make, discovery::suite())
    }

    /// Checks a [`BindingLog`](crate::log::BindingLog).
    pub fn log<R: LogRig>(self, make: impl Fn() -> R + Send + Sync + 'static) -> ConformanceReport {
        run::run(self, make, log::suite())
    }
}

impl Default for Kit {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the obligations of a contract, from the documentation of its trait.
    fn documented(source: &str) -> Vec<String> {
        let names = source.lines().filter_map(|line| {
            let (name, _) = line.strip_prefix("/// * **")?.split_once(".**")?;
            Some(name.to_owned())
        });
        names.collect()
    }

    fn checked(obligations: &[Obligation]) -> Vec<String> {
        let names = obligations.iter().map(|Obligation { number, sentence }| {
            let name = sentence.split_once(':').map_or(*sentence, |(name, _)| name);
            format!("{number} {name}")
        });
        names.collect()
    }

    #[test]
    fn every_documented_obligation_has_a_check() {
        assert_eq!(
            checked(&fetcher::OBLIGATIONS),
            documented(include_str!("../fetcher.rs"))
        );
        assert_eq!(
            checked(&discovery::OBLIGATIONS),
            documented(include_str!("../discovery.rs"))
        );
        assert_eq!(
            checked(&log::OBLIGATIONS),
            documented(include_str!("../log/mod.rs"))
        );
    }
}
