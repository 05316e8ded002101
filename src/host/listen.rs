//! Listening for HTTP clients on this machine.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use axum::serve::{Listener, ListenerExt};
use tokio::net::{TcpListener, TcpStream};

/// A listener on a free port of 127.0.0.1, with that port.
///
/// # Errors
/// No port can be bound.
pub async fn loopback() -> io::Result<(impl Listener<Io = TcpStream, Addr = SocketAddr>, u16)> {
    let (listener, address) = at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    Ok((listener, address.port()))
}

/// A port of 127.0.0.1 on which nothing listens, for a program that is started later.
///
/// If possible it is outside of the range that the system uses for outgoing connections, so that none of them takes it before the
/// program starts.
///
/// # Errors
/// No port can be bound.
#[expect(clippy::disallowed_methods, reason = "this is the door to the world")]
pub fn free_port() -> io::Result<u16> {
    let free = |port| Ok(std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))?.local_addr()?.port());
    let mut random = crate::random::generator();
    let drawn = std::iter::repeat_with(|| free(random.u16(LISTENED))).take(100).find_map(io::Result::ok);
    drawn.map_or_else(|| free(0), Ok)
}

/// Below the ports of outgoing connections, which start at 32768 on Linux and at 49152 on macOS.
const LISTENED: std::ops::Range<u16> = 10_000..32_768;

/// A listener at this address; port 0 means any free port.
///
/// # Errors
/// The address cannot be bound.
pub async fn at(address: SocketAddr) -> io::Result<(impl Listener<Io = TcpStream, Addr = SocketAddr>, SocketAddr)> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    Ok((without_delay(listener), bound))
}

/// The listener, with `TCP_NODELAY` set on every socket that it accepts. With Nagle's algorithm the second of two small
/// writes waits for the delayed acknowledgement of the first: 40 ms for each call whose head and body are written separately.
pub fn without_delay(listener: TcpListener) -> impl Listener<Io = TcpStream, Addr = SocketAddr> {
    listener.tap_io(|socket| {
        // A socket without the option is slow, but works.
        let _ = socket.set_nodelay(true);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn accepted_sockets_do_not_wait_for_acknowledgements() {
        let (mut listener, port) = loopback().await.unwrap();
        let (_client, (socket, _)) =
            tokio::join!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)), async { listener.accept().await });
        assert!(socket.nodelay().unwrap());
    }
}
