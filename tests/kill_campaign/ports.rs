//! Where the processes of one life meet.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the ports that the system gives to whoever asks for any.
const FIRST: u32 = 20_000;
const COUNT: u32 = 10_000;

/// Writes a file with so many addresses that nobody listens on.
pub(crate) fn host_file(path: &Path, processes: usize) -> PathBuf {
    // All at once, so that they differ.
    let listeners: Vec<TcpListener> = (0..processes).map(|_| free()).collect();
    let addresses: Vec<String> = listeners
        .iter()
        .map(|listener| format!("{}\n", listener.local_addr().expect("it is bound")))
        .collect();
    fs::write(path, addresses.concat()).expect("the folder is writable");
    path.to_owned()
}

fn free() -> TcpListener {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    (0..COUNT)
        .find_map(|_| {
            let step = NEXT.fetch_add(1, Ordering::Relaxed);
            // Campaigns that run side by side start far from each other.
            let offset = process::id().wrapping_mul(97).wrapping_add(step) % COUNT;
            TcpListener::bind(format!("127.0.0.1:{}", FIRST + offset)).ok()
        })
        .expect("a port is free")
}
