//! What this process and the machine are busy with, for the benchmarks that include this file.

use std::error::Error;
use std::fs;

/// The system counts CPU time in hundredths of a second.
const JIFFIES: f64 = 100.0;

/// The seconds of CPU that were spent so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu {
    /// By this process, user and system.
    pub(crate) process: f64,
    /// By everybody on all cores.
    pub(crate) machine: f64,
}

impl Cpu {
    pub(crate) fn now() -> Result<Self, Box<dyn Error>> {
        let sum = |fields: &[&str]| -> Result<f64, Box<dyn Error>> {
            let jiffies: Result<Vec<u64>, _> = fields.iter().map(|field| field.parse()).collect();
            Ok(jiffies?.into_iter().sum::<u64>() as f64 / JIFFIES)
        };
        let process = fs::read_to_string("/proc/self/stat")?;
        // The name, in parentheses, may have anything in it.
        let (_, process) = process.rsplit_once(')').ok_or("no name")?;
        let process: Vec<&str> = process.split_whitespace().collect();
        let machine = fs::read_to_string("/proc/stat")?;
        let machine = machine.lines().next().ok_or("no line")?;
        let machine: Vec<&str> = machine.split_whitespace().collect();
        // The fourth and the fifth are idle; what guests take is in the first two as well.
        let busy = [&machine[1..4], &machine[6..9]].concat();
        Ok(Self {
            process: sum(&process[11..13])?,
            machine: sum(&busy)?,
        })
    }
}
