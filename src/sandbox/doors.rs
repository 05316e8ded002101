//! Connections from a jail without network to given ports of 127.0.0.1, and nothing else. Outside, each port has a Unix socket in a
//! directory; inside, this binary, started with [`ARGUMENT`], listens on the same ports and forwards to the sockets.
#![expect(clippy::disallowed_methods, reason = "processes and sockets")]

use std::{
    io::{self, Write},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use rustix::process::getppid;
use tokio::{net::UnixListener, task::JoinSet};

/// The first argument of a gevals in a jail; the second is the list of ports.
pub const ARGUMENT: &str = "behind-doors";
/// Where this binary and the sockets are in the jail.
pub const PROGRAM: &str = "/run/gevals/gevals";
pub const FOLDER: &str = "/run/gevals/doors";

/// The outer side. It is closed when this is dropped.
pub struct Doors {
    folder: tempfile::TempDir,
    _open: JoinSet<()>,
}

impl Doors {
    /// Opens a socket for each port.
    ///
    /// # Errors
    /// A socket cannot be created.
    pub fn open(ports: &[u16]) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut open = JoinSet::new();
        for &port in ports {
            let listener = UnixListener::bind(folder.path().join(port.to_string()))?;
            open.spawn(serve(listener, port));
        }
        Ok(Self { folder, _open: open })
    }

    /// The directory of the sockets.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

async fn serve(listener: UnixListener, port: u16) {
    while let Ok((mut inner, _)) = listener.accept().await {
        tokio::spawn(async move {
            if let Ok(mut outer) = tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
                let _ = outer.set_nodelay(true);
                let _ = tokio::io::copy_bidirectional(&mut inner, &mut outer).await;
            }
        });
    }
}

/// Prints to standard error, and does not panic if that is closed.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "gevals: {text}");
}

/// The main function of a gevals in a jail: it reports on standard output that it listens, and ends with the process that started it.
pub fn run() -> u8 {
    let ports: Option<Vec<u16>> =
        std::env::args().nth(2).and_then(|ports| ports.split(',').map(|port| port.parse().ok()).collect());
    let Some(ports) = ports else {
        say(&format!("`{ARGUMENT}` is started by gevals alone"));
        return 2;
    };
    let parent = getppid();
    for port in ports {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => drop(thread::spawn(move || listen(&listener, port))),
            Err(error) => {
                say(&format!("cannot listen on port {port} of the sandbox: {error}"));
                return 3;
            }
        }
    }
    if writeln!(io::stdout(), "open").is_err() {
        return 3;
    }
    while getppid() == parent {
        thread::sleep(Duration::from_millis(50));
    }
    0
}

fn listen(listener: &TcpListener, port: u16) {
    let door = PathBuf::from(FOLDER).join(port.to_string());
    for inner in listener.incoming().flatten() {
        let Ok(outer) = UnixStream::connect(&door) else { continue };
        let _ = inner.set_nodelay(true);
        if let (Ok(to), Ok(from)) = (inner.try_clone(), outer.try_clone()) {
            thread::spawn(move || inwards(from, to));
            thread::spawn(move || outwards(inner, outer));
        }
    }
}

fn inwards(mut from: UnixStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

fn outwards(mut from: TcpStream, mut to: UnixStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
