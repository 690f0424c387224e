//! An address in front of a cluster, which tells who connects to it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Passes connections on to a cluster. The cluster tells clients its own address, so only the first
/// connections of a client come here.
pub(crate) struct Relay {
    address: String,
    /// The first bytes that came over each connection: a request begins with the client's id.
    first: Arc<Mutex<Vec<String>>>,
}

impl Relay {
    /// In front of the cluster at `target`, until the process ends.
    pub(crate) fn start(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound").to_string();
        let first = Arc::new(Mutex::new(Vec::new()));
        let (told, target) = (Arc::clone(&first), target.to_owned());
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (told, target) = (Arc::clone(&told), target.clone());
                thread::spawn(move || pass(client, &target, &told));
            }
        });
        Self { address, first }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// What was said first on each connection so far, with what is no text left as it comes.
    pub(crate) fn first(&self) -> Vec<String> {
        self.first.lock().unwrap().clone()
    }
}

fn pass(mut client: TcpStream, target: &str, told: &Mutex<Vec<String>>) {
    let Ok(mut cluster) = TcpStream::connect(target) else {
        return;
    };
    let mut first = [0; 512];
    let Ok(count) = client.read(&mut first) else {
        return;
    };
    let said = String::from_utf8_lossy(&first[..count]).into_owned();
    told.lock().unwrap().push(said);
    if cluster.write_all(&first[..count]).is_err() {
        return;
    }
    let (mut answers, mut back) = (
        cluster.try_clone().expect("a descriptor is left"),
        client.try_clone().expect("a descriptor is left"),
    );
    thread::spawn(move || {
        // Whichever side ends first ends the other.
        std::io::copy(&mut answers, &mut back).ok();
        back.shutdown(Shutdown::Both).ok();
    });
    std::io::copy(&mut client, &mut cluster).ok();
    cluster.shutdown(Shutdown::Both).ok();
}
