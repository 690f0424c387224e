use std::thread;

use super::*;

const RUN: RunToken = RunToken([1; 16]);

/// Addresses that nobody listens on, below those that the system gives away by itself.
fn addresses(count: usize) -> Vec<String> {
    let free = (0..10_000_u32).filter_map(|step| {
        let port = 10_000 + std::process::id().wrapping_mul(31).wrapping_add(step) % 10_000;
        TcpListener::bind(format!("127.0.0.1:{port}")).ok()
    });
    let listeners: Vec<TcpListener> = free.take(count).collect();
    listeners
        .iter()
        .map(|listener| listener.local_addr().unwrap().to_string())
        .collect()
}

fn meeting(index: usize, run: RunToken, addresses: &[String]) -> Meeting {
    Meeting {
        run,
        index,
        workers: 1,
        addresses: addresses.to_vec(),
        within: Duration::from_secs(30),
    }
}

fn connect(address: &str) -> TcpStream {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => return stream,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    }
}

/// Whether both ends are of one connection, in both directions.
fn are_connected(one: &mut TcpStream, other: &mut TcpStream) -> bool {
    let mut bytes = [0; 2];
    one.write_all(b"to").unwrap();
    other.read_exact(&mut bytes).unwrap();
    let to = bytes == *b"to";
    other.write_all(b"fr").unwrap();
    one.read_exact(&mut bytes).unwrap();
    to && bytes == *b"fr"
}

#[test]
fn three_processes_meet_in_whatever_order_they_start() {
    let addresses = addresses(3);
    let meetings = [2, 0, 1].map(|index| meeting(index, RUN, &addresses));

    let threads = meetings.map(|meeting| thread::spawn(move || meeting.meet().unwrap()));

    let [mut two, mut zero, mut one] = threads.map(|thread| thread.join().unwrap());
    let pairs = [
        (zero[1].take(), one[0].take()),
        (zero[2].take(), two[0].take()),
        (one[2].take(), two[1].take()),
    ];
    for (left, right) in pairs {
        assert!(are_connected(&mut left.unwrap(), &mut right.unwrap()));
    }
}

#[test]
fn strangers_neither_get_in_nor_hold_anybody_up() {
    let addresses = addresses(2);
    let zero = meeting(0, RUN, &addresses);
    let zero = thread::spawn(move || zero.meet().unwrap());
    // One says nothing, one goes at once, one talks nonsense, and one is of another run.
    let silent = connect(&addresses[0]);
    drop(connect(&addresses[0]));
    let mut nonsense = connect(&addresses[0]);
    nonsense.write_all(&[0xff; 64]).unwrap();
    let other_run = Hello {
        shape: Shape {
            run: RunToken([2; 16]),
            processes: 2,
            workers: 1,
        },
        from: 1,
        to: 0,
    };
    let mut left_over = connect(&addresses[0]);
    left_over.write_all(&other_run.encode()).unwrap();
    let mut answer = [0; ANSWER_BYTES];
    left_over.read_exact(&mut answer).unwrap();

    let mut one = meeting(1, RUN, &addresses).meet().unwrap();

    assert_eq!(Verdict::decode(&answer), Some(Verdict::OtherRun));
    let mut zero = zero.join().unwrap();
    assert!(are_connected(
        zero[1].as_mut().unwrap(),
        one[0].as_mut().unwrap()
    ));
    drop(silent);
}

#[test]
fn a_process_that_was_started_again_takes_the_place_of_the_first() {
    let addresses = addresses(3);
    let zero = meeting(0, RUN, &addresses);
    let zero = thread::spawn(move || zero.meet().unwrap());
    let hello = Hello {
        shape: Shape {
            run: RUN,
            processes: 3,
            workers: 1,
        },
        from: 1,
        to: 0,
    };
    let mut first = connect(&addresses[0]);
    first.write_all(&hello.encode()).unwrap();
    first.read_exact(&mut [0; ANSWER_BYTES]).unwrap();
    drop(first);

    let others = [1, 2].map(|index| {
        let other = meeting(index, RUN, &addresses);
        thread::spawn(move || other.meet().unwrap())
    });

    let [mut one, _two] = others.map(|other| other.join().unwrap());
    let mut zero = zero.join().unwrap();
    assert!(are_connected(
        zero[1].as_mut().unwrap(),
        one[0].as_mut().unwrap()
    ));
}

#[test]
fn a_process_that_is_of_no_run_is_told_why() {
    let addresses = addresses(2);
    let mut zero = meeting(0, RUN, &addresses);
    let mut one = meeting(1, RunToken([2; 16]), &addresses);
    (zero.within, one.within) = (Duration::from_secs(1), Duration::from_secs(1));
    let zero = thread::spawn(move || zero.meet());

    let refused = one.meet().unwrap_err().to_string();

    assert!(refused.contains("belongs to another run"), "{refused}");
    let missing = zero.join().unwrap().unwrap_err().to_string();
    assert!(missing.contains("process 1 at"), "{missing}");
}
