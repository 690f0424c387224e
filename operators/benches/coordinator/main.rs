//! What deciding who reads what costs, and what a move of a split takes.
//!
//! `cargo bench -p timely-splits --bench coordinator` prints a JSON line a figure, and a table of
//! them at the end. All times are of one thread, and medians unless they say otherwise.
#![expect(clippy::print_stdout, reason = "what a benchmark is for")]
#![expect(clippy::disallowed_methods, reason = "a benchmark looks at the clock")]

mod epochs;
mod moves;
mod plans;
mod ticks;
mod topics;

use std::fmt::Write;
use std::time::{Duration, Instant};

/// What was measured.
struct Figure {
    what: &'static str,
    /// The circumstances, and what was counted.
    of: Vec<(&'static str, u64)>,
    micros: Vec<(&'static str, f64)>,
    /// What each of the times is to be less than, if there is such a bound.
    bound: Option<Duration>,
}

impl Figure {
    fn json(&self) -> String {
        let mut line = format!("{{\"what\":\"{}\"", self.what);
        for (name, value) in &self.of {
            write!(line, ",\"{name}\":{value}").ok();
        }
        for (name, value) in &self.micros {
            write!(line, ",\"{name}_us\":{value:.1}").ok();
        }
        if let Some(bound) = self.bound {
            write!(line, ",\"bound_us\":{}", bound.as_micros()).ok();
        }
        line + "}"
    }

    fn row(&self) -> String {
        let of = self.of.iter();
        let of: Vec<_> = of.map(|(name, value)| format!("{name} {value}")).collect();
        let micros = self.micros.iter();
        let times = micros.map(|(name, value)| format!("{name} {:.3} ms", value / 1_000.0));
        let times: Vec<_> = times.collect();
        let values = self.micros.iter().map(|(_, value)| *value);
        let most = values.fold(0.0, f64::max);
        let kept = self.bound.map_or_else(String::new, |bound| {
            let kept = most < bound.as_secs_f64() * 1e6;
            let word = if kept { "under" } else { "NOT UNDER" };
            format!(" ({word} {bound:?})")
        });
        format!(
            "{:<44} {:<58} {}{kept}",
            self.what,
            of.join(", "),
            times.join(", ")
        )
    }
}

/// Runs and times something.
fn timed<R>(run: impl FnOnce() -> R) -> (R, Duration) {
    let start = Instant::now();
    let result = run();
    (result, start.elapsed())
}

/// The value at this place of a hundred in sorted times, in microseconds.
fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    let place = (times.len() * percent / 100).min(times.len() - 1);
    times[place].as_secs_f64() * 1e6
}

fn main() {
    // A process that was started for it is the second one of the moves.
    if moves::join() {
        return;
    }
    let mut figures = Vec::new();
    let mut report = |figure: Figure| {
        println!("{}", figure.json());
        figures.push(figure);
    };
    ticks::measure(&mut report);
    plans::measure(&mut report);
    epochs::measure(&mut report);
    moves::measure(&mut report);
    println!();
    figures
        .iter()
        .for_each(|figure| println!("{}", figure.row()));
}
