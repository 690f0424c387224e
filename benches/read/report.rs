//! The table at the end.

use crate::Mode;
use crate::meter::{Measurement, Spread};

/// Prints medians and extremes, and how the source compares within each round.
pub(crate) fn print(modes: &[Mode], rounds: &[Vec<Measurement>]) {
    println!();
    println!(
        "{:<16} {:>27} {:>12} {:>10}   {:>23} {:>13}",
        "",
        "CPU ns/record (min..max)",
        "librdkafka's",
        "system's",
        "M records/s (min..max)",
        "start, CPU ms"
    );
    for (index, mode) in modes.iter().enumerate() {
        let of_mode = || rounds.iter().map(|round| &round[index]);
        let cpu = Spread::of(of_mode().map(|one| one.cpu_ns_per_record));
        let client = Spread::of(of_mode().map(|one| one.client_ns_per_record));
        let system = Spread::of(of_mode().map(|one| one.system_ns_per_record));
        let rate = Spread::of(of_mode().map(|one| one.records_per_second / 1e6));
        let start = Spread::of(of_mode().map(|one| one.start_cpu_ms));
        println!(
            "{:<16} {:>9.1} ({:>7.1}..{:>7.1}) {:>12.1} {:>10.1}   {:>9.2} ({:>5.2}..{:>5.2}) {:>13.1}",
            mode.name(),
            cpu.median,
            cpu.least,
            cpu.most,
            client.median,
            system.median,
            rate.median,
            rate.least,
            rate.most,
            start.median,
        );
    }
    let Some(source) = modes.iter().position(|mode| *mode == Mode::Source) else {
        return;
    };
    println!();
    for (index, mode) in modes.iter().enumerate().filter(|(at, _)| *at != source) {
        let ratio = Spread::of(
            rounds
                .iter()
                .map(|round| round[source].cpu_ns_per_record / round[index].cpu_ns_per_record),
        );
        println!(
            "source/{:<16} {:>5.2} ({:.2}..{:.2}) of its CPU, the median of rounds",
            mode.name(),
            ratio.median,
            ratio.least,
            ratio.most,
        );
    }
    let in_memory = |mode: &Mode| *mode == Mode::SourceWithMemory;
    let Some(in_memory) = modes.iter().position(in_memory) else {
        return;
    };
    let rate = |round: &Vec<Measurement>| {
        round[source].records_per_second / round[in_memory].records_per_second
    };
    let ratio = Spread::of(rounds.iter().map(rate));
    println!(
        "source/source-with-memory {:>5.3} ({:.3}..{:.3}) of its records a second, the median of rounds",
        ratio.median, ratio.least, ratio.most,
    );
}
