//! In a supervised process: ends it when its supervisor is gone.

use std::io::{self, ErrorKind, Read};
use std::{env, thread};

use super::{SUPERVISED_VARIABLE, SUPERVISOR_LOST_STATUS};

/// Ends this process, if it is supervised, when its standard input closes: then the supervisor is gone.
///
/// The thread ends with the process, and waits for nothing but that.
pub(crate) fn end_with_supervisor() -> io::Result<()> {
    if env::var_os(SUPERVISED_VARIABLE).is_some() {
        thread::Builder::new()
            .name("supervisor-watch".to_owned())
            .spawn(|| {
                await_end_of_input();
                say("timely-kafka: the supervisor of this process is gone; this process ends");
                signal_hook::low_level::exit(SUPERVISOR_LOST_STATUS);
            })?;
    }
    Ok(())
}

fn await_end_of_input() {
    let mut input = io::stdin().lock();
    loop {
        match input.read(&mut [0; 64]) {
            // The supervisor writes nothing.
            Ok(1..) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
        }
    }
}

#[expect(clippy::print_stderr, reason = "the last words of a process")]
fn say(sentence: &str) {
    eprintln!("{sentence}");
}
