//! The way in by TCP, when it cannot be had.

use super::house::{CALM, House};
use super::reload::{config, put, told};
use midwatch::kernel::status::Status;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

// A board whose network comes up after its daemon, and a port that another program has: the daemon
// did not start, and nothing ran.
#[test]
fn tasks_run_although_the_tcp_address_cannot_be_had_and_it_is_served_once_it_can() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    // The second is of a network for documentation: no host has it.
    for (address, reason) in
        [(format!("127.0.0.1:{port}"), "in use"), ("192.0.2.7:8474".to_owned(), "Cannot assign")]
    {
        let house = House::new(CALM, &[("job", "true", "")]);
        let tokens = house.path("tokens");
        put(&tokens, "reader-0123456789abcdef");
        let http = format!("[http]\nlisten = '{address}'\ntoken_file = '{}'\n", tokens.display());
        put(&house.path("midwatch.toml"), &(config(&house) + &http));
        let daemon = house.daemon();
        house.until_status(house.submit("job", "1"), Status::Success);
        let points = told(&house).1;
        let point = points.iter().find(|point| point.contains(&address));
        assert!(point.is_some_and(|point| point.contains(reason)), "{points:?}");
        let said = daemon.log().matches("cannot be listened on").count();
        assert_eq!(said, 1, "{}", daemon.log());
    }
    let house = House::new(CALM, &[("job", "true", "")]);
    let tokens = house.path("tokens");
    put(&tokens, "reader-0123456789abcdef");
    let address = format!("127.0.0.1:{port}");
    let http = format!("[http]\nlisten = '{address}'\ntoken_file = '{}'\n", tokens.display());
    put(&house.path("midwatch.toml"), &(config(&house) + &http));
    let _daemon = house.daemon();
    drop(taken);
    house.until("it is served", |_| {
        let mut stream = TcpStream::connect(&address).ok()?;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.starts_with("HTTP/1.1 200").then_some(())
    });
    assert_eq!(told(&house).1, Vec::<String>::new());
}
