//! Shows what happens: live in a terminal, as plain lines elsewhere.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use indicatif::{HumanCount, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::ledger::{Event, Ledger};

/// How often a plain line says how far things are.
const PLAIN_EVERY: Duration = Duration::from_secs(1);

pub(crate) struct Show {
    began: Instant,
    way: Way,
}

enum Way {
    Live(Live),
    Plain { last: Instant },
}

struct Live {
    all: MultiProgress,
    clusters: Vec<(&'static str, ProgressBar)>,
    keys: ProgressBar,
    frontier: ProgressBar,
}

impl Show {
    pub(crate) fn new() -> Self {
        // What is logged to the same terminal and what is drawn there would overwrite each other.
        let live = std::io::stdout().is_terminal() && std::env::var_os("RUST_LOG").is_none();
        let began = Instant::now();
        let way = if live {
            Way::Live(Live::new())
        } else {
            Way::Plain { last: began }
        };
        Self { began, way }
    }

    /// Says what has just happened.
    pub(crate) fn tell(&self, words: impl Display) {
        let line = format!("{:4.1} s  {words}", self.began.elapsed().as_secs_f64());
        match &self.way {
            Way::Live(live) => live.all.suspend(|| print(&line)),
            Way::Plain { .. } => print(&line),
        }
    }

    /// Says what of an event a person wants to know.
    pub(crate) fn hear(&self, event: &Event) {
        match event {
            Event::Told(words) | Event::Failed(words) | Event::NotWritten(words) => {
                self.tell(words);
            }
            _ => {}
        }
    }

    /// Shows how far things are.
    pub(crate) fn update(&mut self, ledger: &Ledger) {
        match &mut self.way {
            Way::Live(live) => live.update(ledger),
            Way::Plain { last } if last.elapsed() >= PLAIN_EVERY => {
                *last = Instant::now();
                let clusters = ledger.clusters().iter();
                let clusters = clusters.map(|(name, tally)| {
                    let (read, written) = (count(tally.read), count(tally.written));
                    format!("{name} {read} of {written}")
                });
                let clusters = clusters.collect::<Vec<_>>().join(", ");
                self.tell(format!("  read: {clusters}; {}", frontier(ledger)));
            }
            Way::Plain { .. } => {}
        }
    }

    /// Ends the show with what it comes to; `moved` says whether all steps were taken.
    pub(crate) fn verdict(&self, ledger: &Ledger, moved: Result<(), String>) -> bool {
        if let Way::Live(live) = &self.way {
            live.end();
        }
        let verdict = ledger.verdict();
        let homes = ledger.clusters().iter();
        let homes = homes.map(|(name, tally)| format!("{} to {name}", count(tally.written)));
        let homes = homes.collect::<Vec<_>>().join(", ");
        print("");
        print(&format!(
            "written  {:>6}  ({homes})",
            count(verdict.written)
        ));
        print(&format!(
            "read     {:>6}  ({} keys counted on all workers, {} of them wrong)",
            count(verdict.read),
            ledger.keys().len(),
            verdict.miscounted
        ));
        print(&format!("missing  {:>6}", count(verdict.missing)));
        print(&format!("twice    {:>6}", count(verdict.twice)));
        let passed = if verdict.durable {
            "passed"
        } else {
            "has not passed"
        };
        print(&format!(
            "frontier {passed} the last tick, {}; {} ticks are durable, with {} records",
            verdict.last_tick,
            count(verdict.ticks),
            HumanCount(verdict.bound)
        ));
        for failure in &verdict.failures {
            print(&format!("failed   {failure}"));
        }
        if verdict.strange > 0 {
            print(&format!(
                "strange  {:>6}  (read and never written)",
                count(verdict.strange)
            ));
        }
        let good = moved.is_ok() && verdict.is_good();
        match moved {
            Ok(()) if good => print("verdict  good"),
            Ok(()) => print("verdict  bad"),
            Err(why) => print(&format!("verdict  bad: {why}")),
        }
        good
    }
}

impl Live {
    fn new() -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stdout());
        let style = |template| {
            let style = ProgressStyle::with_template(template);
            style.expect("the template is one").progress_chars("━╸ ")
        };
        let clusters = ["A", "B"].map(|name| {
            let bar = all.add(ProgressBar::new(0));
            bar.set_style(style("  {prefix:.bold} {bar:40.cyan} {msg}"));
            bar.set_prefix(name);
            (name, bar)
        });
        let line = || {
            let line = all.add(ProgressBar::new(0));
            line.set_style(style("  {msg}"));
            line
        };
        Self {
            clusters: clusters.into(),
            keys: line(),
            frontier: line(),
            all,
        }
    }

    fn update(&self, ledger: &Ledger) {
        let tallies = ledger.clusters().values();
        let longest = tallies.map(|tally| tally.written).max().unwrap_or_default();
        for (name, bar) in &self.clusters {
            let tally = ledger.clusters()[*name];
            bar.set_length(longest as u64);
            bar.set_position(tally.read as u64);
            let (read, written) = (count(tally.read), count(tally.written));
            bar.set_message(format!("{read} read of {written} written"));
        }
        let keys = ledger.keys().iter();
        let keys = keys.map(|(key, tally)| format!("{key} {}", count(tally.read)));
        self.keys.set_message(keys.collect::<Vec<_>>().join("  "));
        self.frontier.set_message(frontier(ledger));
    }

    fn end(&self) {
        for (_, bar) in &self.clusters {
            bar.abandon();
        }
        self.keys.abandon();
        self.frontier.abandon();
        // The last of them has no line break yet.
        print("");
    }
}

/// How far behind the present the frontier is.
fn frontier(ledger: &Ledger) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    match ledger.frontier() {
        None => "frontier: the end".to_owned(),
        Some(0) => "frontier: not started".to_owned(),
        Some(tick) => {
            let behind = now.saturating_sub(Duration::from_millis(tick));
            format!("frontier: {} ms behind the clock", behind.as_millis())
        }
    }
}

/// A number with its thousands apart.
fn count(number: usize) -> String {
    HumanCount(number as u64).to_string()
}

/// Whoever listened may have gone; then there is nobody to tell.
fn print(line: &str) {
    writeln!(std::io::stdout(), "{line}").ok();
}
