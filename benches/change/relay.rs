//! What stands before the brokers of a cluster, and counts what they send.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use timely_kafka::embedded::KafkaApi;

use crate::fetched::{Fetched, VERSION};
use crate::writer::await_leaders;
use crate::{NAME, Outcome};

/// The bytes of the length before each request and answer.
const LENGTH_BYTES: usize = 4;

/// The bytes of a request that say of which kind it is, in which version, and its number.
const HEAD_BYTES: usize = 8;

/// Passes all connections to the brokers of a cluster on, until it is dropped: clients are told that the brokers
/// are here. So what is fetched is counted by what is sent, and not by who reads it.
#[derive(Debug)]
pub(crate) struct Relay {
    servers: String,
    addresses: Vec<SocketAddr>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// What answers say of where a broker is, and what they are to say.
    brokers: Vec<(Vec<u8>, Vec<u8>)>,
    counted: Mutex<Counted>,
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct Counted {
    fetched: Fetched,
    /// What came that could not be read, and so was not counted.
    unread: Option<String>,
}

impl Relay {
    /// Starts before the brokers that `servers` know, which have so many partitions.
    pub(crate) fn start(servers: &str, partitions: i32) -> Outcome<Self> {
        let metadata = await_leaders(servers, NAME, partitions)?;
        let mut of_clients = servers.to_owned();
        let mut brokers = Vec::new();
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        for broker in metadata.brokers() {
            let (host, port) = (broker.host(), u16::try_from(broker.port())?);
            let listener = TcpListener::bind((host, 0))?;
            let here = listener.local_addr()?;
            let named = |at: u16| [host.as_bytes(), &i32::from(at).to_be_bytes()].concat();
            brokers.push((named(port), named(here.port())));
            of_clients = of_clients.replace(&format!("{host}:{port}"), &here.to_string());
            listeners.push((listener, (host.to_owned(), port)));
            addresses.push(here);
        }
        let shared = Arc::new(Shared {
            brokers,
            counted: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        for (listener, broker) in listeners {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                for client in listener.incoming().map_while(Result::ok) {
                    if shared.is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    // A client that is not passed on finds its connection closed.
                    shared.pass(client, &broker).ok();
                }
            });
        }
        Ok(Self {
            servers: of_clients,
            addresses,
            shared,
        })
    }

    /// Where clients find the brokers.
    pub(crate) fn servers(&self) -> &str {
        &self.servers
    }

    /// Counts from here on what comes that came before.
    pub(crate) fn track(&self) {
        self.shared.counted().fetched.track();
    }

    /// How many records were fetched since this was started.
    pub(crate) fn records(&self) -> u64 {
        self.shared.counted().fetched.records()
    }

    /// How many records came of each partition that had come before.
    pub(crate) fn twice(&self) -> Outcome<BTreeMap<i32, u64>> {
        let counted = self.shared.counted();
        match &counted.unread {
            None => Ok(counted.fetched.twice()),
            Some(words) => Err(words.clone().into()),
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        for address in &self.addresses {
            // Whoever listens looks up.
            TcpStream::connect(address).ok();
        }
    }
}

/// A request that is to be answered: its kind, its version, and its number.
type Asked = (KafkaApi, i16, [u8; 4]);

impl Shared {
    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes a connection on, both ways. Whichever side ends ends the other.
    fn pass(self: &Arc<Self>, client: TcpStream, broker: &(String, u16)) -> io::Result<()> {
        let server = TcpStream::connect((broker.0.as_str(), broker.1))?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (to_client, to_server) = (client.try_clone()?, server.try_clone()?);
        // A client has a few requests under way.
        let (asking, asked) = mpsc::channel();
        thread::spawn(move || pass_requests(client, to_server, &asking));
        let shared = Arc::clone(self);
        thread::spawn(move || shared.pass_answers(server, to_client, &asked));
        Ok(())
    }

    fn pass_answers(&self, mut server: TcpStream, mut client: TcpStream, asked: &Receiver<Asked>) {
        let mut bytes = Vec::new();
        while let Ok(answer) = read(&mut server, &mut bytes)
            && let Ok(asked) = asked.recv()
        {
            self.note(asked, answer);
            if client.write_all(answer).is_err() {
                break;
            }
        }
        client.shutdown(Shutdown::Both).ok();
    }

    /// Counts what an answer brings, and says in it that brokers are here.
    fn note(&self, (api, version, number): Asked, answer: &mut [u8]) {
        let content = &mut answer[LENGTH_BYTES..];
        let mut unread = (!content.starts_with(&number)).then_some("answers are out of order");
        match api {
            KafkaApi::Fetch => {
                let mut counted = self.counted();
                if version != VERSION || counted.fetched.note(content).is_none() {
                    unread = Some("an answer to a fetch cannot be read");
                }
            }
            KafkaApi::Metadata | KafkaApi::FindCoordinator => {
                for (there, here) in &self.brokers {
                    for at in 0..content.len() {
                        if content[at..].starts_with(there) {
                            content[at..][..here.len()].copy_from_slice(here);
                        }
                    }
                }
            }
            _ => {}
        }
        if let Some(words) = unread {
            self.counted().unread = Some(format!("{words}: {api:?}, version {version}"));
        }
    }
}

fn pass_requests(mut client: TcpStream, mut server: TcpStream, asking: &Sender<Asked>) {
    let mut bytes = Vec::new();
    while let Ok(request) = read(&mut client, &mut bytes) {
        let head = request[LENGTH_BYTES..].first_chunk::<HEAD_BYTES>();
        let Some([a, b, c, d, number @ ..]) = head.copied() else {
            break;
        };
        let api = KafkaApi::from_number(i16::from_be_bytes([a, b]));
        let asked = (api, i16::from_be_bytes([c, d]), number);
        if asking.send(asked).is_err() || server.write_all(request).is_err() {
            break;
        }
    }
    server.shutdown(Shutdown::Both).ok();
}

/// Reads a request or an answer, and its length before it, into bytes that are used again.
fn read<'a>(from: &mut TcpStream, bytes: &'a mut Vec<u8>) -> io::Result<&'a mut [u8]> {
    let mut length = [0; LENGTH_BYTES];
    from.read_exact(&mut length)?;
    let size = usize::try_from(i32::from_be_bytes(length)).map_err(io::Error::other)?;
    let size = LENGTH_BYTES + size;
    if bytes.len() < size {
        bytes.resize(size, 0);
    }
    let message = &mut bytes[..size];
    message[..LENGTH_BYTES].copy_from_slice(&length);
    from.read_exact(&mut message[LENGTH_BYTES..])?;
    Ok(message)
}
