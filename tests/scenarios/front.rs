//! An address behind which is one cluster, and then another.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

const HOST: &str = "127.0.0.1";

/// Passes connections on to an embedded cluster, whose brokers clients take for its own.
///
/// The brokers of a cluster tell clients their own addresses. So what they answer is changed: each of
/// them is at a port of this, and stays there when another cluster is behind it.
pub(crate) struct Front {
    address: String,
    behind: Arc<Mutex<Behind>>,
}

struct Behind {
    /// The broker that clients are told of first.
    first: u16,
    /// Where each broker is, by its number.
    brokers: BTreeMap<i32, u16>,
    /// At which port of this each broker is.
    ports: BTreeMap<i32, u16>,
    connections: Vec<TcpStream>,
}

impl Front {
    /// In front of the cluster at `target`, until the process ends.
    pub(crate) fn start(target: &str) -> Self {
        let behind = Arc::new(Mutex::new(Behind {
            first: port_of(target),
            brokers: BTreeMap::new(),
            ports: BTreeMap::new(),
            connections: Vec::new(),
        }));
        let port = listen(&behind, None);
        Self {
            address: format!("{HOST}:{port}"),
            behind,
        }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Cuts all connections; the next ones are passed on to the cluster at `target`, which numbers its
    /// brokers as the one before did.
    pub(crate) fn turn_to(&self, target: &str) {
        let mut behind = self.behind.lock().unwrap();
        let first = behind.first;
        behind.first = port_of(target);
        // Where the others are is told by the first.
        let now = behind.first;
        behind.brokers.retain(|_, port| *port == first);
        behind.brokers.values_mut().for_each(|port| *port = now);
        for connection in behind.connections.drain(..) {
            connection.shutdown(Shutdown::Both).ok();
        }
    }
}

fn port_of(target: &str) -> u16 {
    let (_, port) = target.rsplit_once(':').expect("an address has a port");
    port.parse().expect("a port is a number")
}

/// Passes on what comes to a port, which is returned: to a broker, or to the first one.
fn listen(behind: &Arc<Mutex<Behind>>, broker: Option<i32>) -> u16 {
    let listener = TcpListener::bind((HOST, 0)).expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let behind = Arc::clone(behind);
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let behind = Arc::clone(&behind);
            // Whichever side ends first ends the other.
            thread::spawn(move || pass(client, broker, &behind).ok());
        }
    });
    port
}

fn pass(client: TcpStream, broker: Option<i32>, behind: &Arc<Mutex<Behind>>) -> io::Result<()> {
    let (mut answers, cluster) = {
        let mut behind = behind.lock().unwrap();
        let port = match broker {
            Some(broker) => behind.brokers.get(&broker).copied(),
            None => Some(behind.first),
        };
        let port = port.ok_or(io::ErrorKind::ConnectionRefused)?;
        let cluster = TcpStream::connect((HOST, port))?;
        behind.connections.push(client.try_clone()?);
        behind.connections.push(cluster.try_clone()?);
        (cluster, behind.first)
    };
    let (mut asked, mut requests) = (client.try_clone()?, answers.try_clone()?);
    thread::spawn(move || {
        io::copy(&mut asked, &mut requests).ok();
        requests.shutdown(Shutdown::Both).ok();
    });
    let passed = pass_answers(&mut answers, &client, behind, cluster);
    client.shutdown(Shutdown::Both)?;
    passed
}

fn pass_answers(
    answers: &mut TcpStream,
    mut client: &TcpStream,
    behind: &Arc<Mutex<Behind>>,
    cluster: u16,
) -> io::Result<()> {
    loop {
        let mut length = [0; 4];
        answers.read_exact(&mut length)?;
        let length_of = usize::try_from(u32::from_be_bytes(length)).expect("an answer is short");
        let mut answer = vec![0; length_of];
        answers.read_exact(&mut answer)?;
        move_brokers(&mut answer, behind, cluster);
        client.write_all(&length)?;
        client.write_all(&answer)?;
    }
}

/// Has brokers be at ports of this that `answer` of `cluster` names: each by its number, the host and the
/// port.
fn move_brokers(answer: &mut [u8], behind: &Arc<Mutex<Behind>>, cluster: u16) {
    let mut at = 0;
    while let Some(found) = find(&answer[at..], HOST.as_bytes()) {
        let (host, port) = (at + found, at + found + HOST.len());
        at = port;
        // The length before it is of one byte or of two, by the version of the answer.
        let prefix = match answer[..host] {
            [.., 10] => 1,
            [.., 0, 9] => 2,
            _ => continue,
        };
        let word = |from: usize| {
            answer
                .get(from..from + 4)
                .and_then(|word| word.try_into().ok())
        };
        let number = host.checked_sub(prefix + 4).and_then(word);
        let (Some(number), Some(is)) = (number, word(port)) else {
            continue;
        };
        let Ok(is) = u16::try_from(u32::from_be_bytes(is)) else {
            continue;
        };
        let shown = u32::from(port_for(i32::from_be_bytes(number), is, behind, cluster));
        answer[port..port + 4].copy_from_slice(&shown.to_be_bytes());
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// At which port of this a broker is.
fn port_for(broker: i32, is: u16, behind: &Arc<Mutex<Behind>>, cluster: u16) -> u16 {
    let mut now = behind.lock().unwrap();
    // An answer can be on its way when another cluster takes the place of the one that gave it.
    if now.first == cluster {
        now.brokers.insert(broker, is);
    }
    let shown = now.ports.get(&broker).copied();
    drop(now);
    let shown = shown.unwrap_or_else(|| listen(behind, Some(broker)));
    *behind.lock().unwrap().ports.entry(broker).or_insert(shown)
}
