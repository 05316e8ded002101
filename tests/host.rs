//! The real host: processes, signals, pipes, files, HTTP.
#![cfg(all(feature = "run", target_os = "linux"))]

use gevals::host::{
    Exec, Exit, FakeHost, Finished, Host, HttpFaultKind, HttpRequest, RealHost, StartFault, disk, fake::Answer,
};
use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::LazyLock,
    time::{Duration, Instant},
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

static HOST: LazyLock<RealHost> = LazyLock::new(RealHost::new);

/// The time in which a shell reaches its `sleep` even on a busy machine.
const STARTED: Duration = Duration::from_secs(3);

/// Less than the `sleep 60` of the scripts: who is done by then did not wait for it.
const BEFORE_SLEEP_ENDS: Duration = Duration::from_secs(40);

fn sh(script: &str) -> Exec {
    let exec = Exec::new("sh", "/tmp").args(["-c", script]).timeout(BEFORE_SLEEP_ENDS);
    Exec { grace: ms(2000), ..exec }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

async fn run(exec: Exec) -> Finished {
    HOST.exec(exec, CancellationToken::new()).await
}

/// A directory that is removed at the end of its test.
struct Temp(PathBuf);

impl Temp {
    fn new() -> Self {
        Self(HOST.temp_dir().unwrap())
    }

    fn file(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.0.join(name);
        HOST.write(&path, text.as_bytes(), Some(mode)).unwrap();
        path
    }

    /// Returns the PID that a script wrote to a file.
    async fn pid(&self, name: &str) -> i32 {
        for _ in 0..2000 {
            if let Some(pid) = std::fs::read_to_string(self.0.join(name)).ok().and_then(|t| t.trim().parse().ok()) {
                return pid;
            }
            tokio::time::sleep(ms(10)).await;
        }
        panic!("`{name}` was not written");
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = HOST.remove(&self.0);
    }
}

fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z"))
}

/// Whether the process ends long before it would by itself.
async fn ends(pid: i32) -> bool {
    let start = Instant::now();
    while lives(pid) && start.elapsed() < BEFORE_SLEEP_ENDS {
        tokio::time::sleep(ms(10)).await;
    }
    !lives(pid)
}

/// Whether the process exists, if only as a zombie.
fn exists(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[tokio::test]
async fn a_process_ends_with_its_status_and_output() {
    let finished = run(sh("echo out; echo err >&2; exit 7")).await;
    assert_eq!(finished.exit, Exit::Exited(7));
    assert_eq!((finished.stdout.text(), finished.stderr.text()), ("out".to_string(), "err".to_string()));
    assert!(finished.leftover.is_none());
    assert_eq!(run(sh("kill -USR1 $$")).await.exit, Exit::Signalled(10));
    assert_eq!(run(sh("echo $A").env("A", "1").env("A", "2")).await.stdout.text(), "2");
}

#[tokio::test]
async fn standard_error_can_be_merged_into_standard_output() {
    let finished = run(Exec { merge_stderr: true, ..sh("echo 1; echo 2 >&2; echo 3; echo 4 >&2") }).await;
    assert_eq!(finished.stdout.text(), "1\n2\n3\n4");
    assert_eq!(finished.stderr.text(), "");
}

#[tokio::test]
async fn programs_that_cannot_start_are_reported() {
    let temp = Temp::new();
    let fault = async |program: &str| match run(Exec::new(program, &temp.0)).await.exit {
        Exit::NotStarted(fault) => fault,
        exit => panic!("{program}: {exit:?}"),
    };
    temp.file("plain", "echo no first line\n", 0o755);
    temp.file("locked", "#!/bin/sh\n", 0o644);
    temp.file("lost", "#!/no/such/shell\n", 0o755);
    assert_eq!(fault("no-such-program").await, StartFault::NoSuchProgram("no-such-program".into()));
    assert_eq!(fault("./missing").await, StartFault::NoSuchProgram("./missing".into()));
    assert_eq!(fault("./plain").await, StartFault::ExecFormat("./plain".into()));
    assert_eq!(fault("./locked").await, StartFault::NotExecutable("./locked".into()));
    assert_eq!(fault("./lost").await, StartFault::NoSuchInterpreter("./lost".into(), "/no/such/shell".into()));
    let nowhere = run(Exec::new("sh", "/no/such/dir")).await.exit;
    assert_eq!(nowhere, Exit::NotStarted(StartFault::NoSuchDir("/no/such/dir".into())));
}

#[tokio::test]
async fn a_relative_script_is_found_in_the_working_directory() {
    let temp = Temp::new();
    temp.file("script.sh", "#!/bin/sh\npwd; echo $1\n", 0o755);
    let finished = run(Exec::new("./script.sh", &temp.0).args(["a b"])).await;
    assert_eq!(finished.stdout.text(), format!("{}\na b", temp.0.display()));
}

#[tokio::test]
async fn a_timeout_sends_sigterm_before_sigkill() {
    let start = Instant::now();
    let polite = run(sh("trap 'echo bye; exit 0' TERM; sleep 60 & wait").timeout(STARTED)).await;
    assert_eq!(polite.exit, Exit::TimedOut { killed: false });
    assert_eq!(polite.stdout.text(), "bye");
    let deaf = run(sh("trap '' TERM; while :; do sleep 0.05; done").timeout(STARTED)).await;
    assert_eq!(deaf.exit, Exit::TimedOut { killed: true });
    // A child of an inline script: upstream waits for it.
    let nested = run(sh("sleep 60; echo no").timeout(STARTED)).await;
    assert_eq!(nested.exit, Exit::TimedOut { killed: false });
    let stopped = run(sh("kill -STOP $$").timeout(STARTED)).await;
    assert_eq!(stopped.exit, Exit::TimedOut { killed: false });
    assert!(start.elapsed() < BEFORE_SLEEP_ENDS, "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_timeout_ends_processes_that_left_the_group() {
    let temp = Temp::new();
    let script = format!(
        "cd {}; setsid sh -c 'trap \"\" TERM; echo $$ >daemon; while :; do sleep 0.1; done' & \
         (setsid sh -c 'sh -c \"echo \\$\\$ >orphan; exec sleep 60\" &' &); \
         setsid env -i sh -c 'echo $$ >bare; exec sleep 60' & sleep 60",
        temp.0.display()
    );
    let exec = sh(&script).timeout(STARTED);
    let finished = run(exec).await;
    assert!(matches!(finished.exit, Exit::TimedOut { .. }));
    assert!(finished.stragglers >= 3, "{finished:?}");
    for name in ["daemon", "orphan", "bare"] {
        assert!(!exists(temp.pid(name).await), "{name}");
    }
}

#[tokio::test]
async fn a_background_process_that_holds_the_pipe_does_not_delay_a_step() {
    let finished = run(sh("echo here; sleep 60 &")).await;
    assert_eq!((finished.exit, finished.stdout.text()), (Exit::Exited(0), "here".to_string()));
    assert!(finished.duration < BEFORE_SLEEP_ENDS);
    assert_eq!(HOST.reap(finished.leftover.unwrap()).await, 1);
}

#[tokio::test]
async fn a_background_server_lives_until_it_is_reaped() {
    let temp = Temp::new();
    let port = HOST.free_port().unwrap();
    // It writes to the step's standard output all the time: that must neither block nor break it.
    let script = format!(
        "cd {}; python3 -u -c \"
import http.server, sys
class H(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        print('x' * 200000)
        super().do_GET()
http.server.HTTPServer(('127.0.0.1', {port}), H).serve_forever()\" & echo $! >pid; echo started",
        temp.0.display()
    );
    temp.file("page", "hello", 0o644);
    let finished = run(sh(&script)).await;
    assert_eq!(finished.exit, Exit::Exited(0));
    let pid = temp.pid("pid").await;
    let request = get(&format!("http://127.0.0.1:{port}/page"));
    for tries in 0.. {
        match HOST.http(request.clone()).await {
            Err(fault) if fault.kind == HttpFaultKind::Connect && tries < 100 => tokio::time::sleep(ms(50)).await,
            answer => {
                assert_eq!(answer.unwrap().body, b"hello");
                break;
            }
        }
    }
    assert_eq!(HOST.http(request).await.unwrap().status, 200);
    assert!(lives(pid));
    assert_eq!(HOST.reap(finished.leftover.unwrap()).await, 1);
    assert!(!exists(pid));
}

#[tokio::test]
async fn dropping_a_result_ends_its_processes() {
    let temp = Temp::new();
    let script = format!("cd {}; setsid sleep 60 & echo $! >left; echo $$ >main", temp.0.display());
    let finished = run(sh(&script)).await;
    let left = temp.pid("left").await;
    assert!(lives(left));
    drop(finished);
    assert!(ends(left).await, "a leftover that is dropped");

    let script = format!("cd {}; setsid sleep 60 & echo $! >left2; echo $$ >main2; sleep 60", temp.0.display());
    let exec = HOST.exec(sh(&script), CancellationToken::new());
    assert!(tokio::time::timeout(STARTED, exec).await.is_err());
    assert!(ends(temp.pid("left2").await).await && ends(temp.pid("main2").await).await, "an exec that is dropped");
}

#[tokio::test]
async fn processes_of_a_run_are_found_by_its_mark() {
    let temp = Temp::new();
    let dead = RealHost::new();
    let script = format!("cd {}; (setsid sh -c 'echo $$ >lost; exec sleep 60' &)", temp.0.display());
    let finished = dead.exec(sh(&script), CancellationToken::new()).await;
    let pid = temp.pid("lost").await;
    assert_eq!(HOST.reap_marked("no-such-mark", ms(100)).await, 0);
    assert!(lives(pid));
    assert_eq!(HOST.reap_marked(dead.mark(), ms(100)).await, 1);
    assert!(!exists(pid));
    drop(finished);
    // If gevals runs inside a step of another gevals, it keeps the outer mark.
    let marks = run(sh("echo $GEVALS_EXEC").env("GEVALS_EXEC", "outer.1")).await.stdout.text();
    assert!(marks.starts_with(&format!("outer.1,{}.", HOST.mark())), "{marks}");
}

#[tokio::test]
async fn a_daemon_without_a_mark_ends_with_its_host() {
    let temp = Temp::new();
    let host = RealHost::new();
    let script = format!("cd {}; (setsid env -i sh -c 'echo $$ >bare; exec sleep 60' &)", temp.0.display());
    drop(host.exec(sh(&script), CancellationToken::new()).await);
    let pid = temp.pid("bare").await;
    assert!(lives(pid), "it is not told from another exec's");
    assert!(host.reap_marked(host.mark(), ms(100)).await >= 1);
    assert!(!exists(pid));
}

#[tokio::test]
async fn excess_output_is_read_and_dropped() {
    let exec = Exec { capture_limit: 1000, ..sh("head -c 200000000 /dev/zero; echo end >&2") };
    let finished = run(exec).await;
    assert_eq!(finished.exit, Exit::Exited(0));
    assert_eq!((finished.stdout.bytes.len(), finished.stdout.dropped), (1000, 199_999_000));
    assert_eq!(finished.stderr.text(), "end");
}

#[tokio::test]
async fn input_is_passed_completely_and_may_be_ignored() {
    let input = "0123456789".repeat(400_000);
    let echoed = run(sh("cat").stdin(input.clone())).await;
    assert_eq!(echoed.stdout.bytes.len(), input.len());
    let ignored = run(sh("exit 3").stdin(input)).await;
    assert_eq!(ignored.exit, Exit::Exited(3));
    let script = run(Exec::new("/bin/sh", "/tmp").stdin("true\n".repeat(50_000) + "echo read to the end\n")).await;
    assert_eq!(script.stdout.text(), "read to the end");
    assert_eq!(run(sh("cat; echo closed")).await.stdout.text(), "closed");
}

#[tokio::test]
async fn cancellation_ends_all_processes() {
    let temp = Temp::new();
    let cancel = CancellationToken::new();
    let script = format!("cd {}; (setsid sleep 60 & echo $! >away); sleep 60", temp.0.display());
    let exec = HOST.exec(sh(&script), cancel.clone());
    let away = async {
        let pid = temp.pid("away").await;
        cancel.cancel();
        pid
    };
    let (finished, away) = tokio::join!(exec, away);
    assert_eq!(finished.exit, Exit::Cancelled { killed: false });
    assert!(!exists(away));
    let late = HOST.exec(sh("echo no"), cancel).await;
    assert_eq!((late.exit, late.stdout.text()), (Exit::Cancelled { killed: false }, String::new()));
}

#[tokio::test]
async fn a_process_can_be_used_interactively() {
    let mut process = HOST.spawn(sh("while read l; do echo got $l; done; exit 4")).await.unwrap();
    process.stdin.write_all(b"hi\n").await.unwrap();
    let mut line = String::new();
    tokio::io::BufReader::new(&mut process.stdout).read_line(&mut line).await.unwrap();
    assert_eq!(line, "got hi\n");
    drop(process.stdin);
    assert_eq!(process.handle.wait().await, Exit::Exited(4));
    assert_eq!(process.handle.end().await, Exit::Exited(4));
    let process = HOST.spawn(sh("sleep 60")).await.unwrap();
    assert_eq!(process.handle.end().await, Exit::Cancelled { killed: false });
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_of_concurrent_processes_are_not_mixed() {
    let start = Instant::now();
    let mut set = tokio::task::JoinSet::new();
    for n in 0..24 {
        let script = if n % 2 == 0 { format!("echo {n}; exit {n}") } else { format!("echo {n}; sleep 60") };
        let timeout = if n % 2 == 0 { BEFORE_SLEEP_ENDS } else { STARTED };
        set.spawn(async move { (n, run(sh(&script).timeout(timeout)).await) });
    }
    while let Some(done) = set.join_next().await {
        let (n, finished) = done.unwrap();
        let exit = if n % 2 == 0 { Exit::Exited(n) } else { Exit::TimedOut { killed: false } };
        assert_eq!((finished.exit, finished.stdout.text()), (exit, n.to_string()));
    }
    assert!(start.elapsed() < BEFORE_SLEEP_ENDS, "{:?}", start.elapsed());
}

#[tokio::test]
async fn files_are_replaced_atomically() {
    let temp = Temp::new();
    let file = temp.file("a.sh", "old", 0o750);
    disk::write_atomic(&file, b"new").unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"new");
    assert_eq!(HOST.mode(&file).unwrap(), 0o750);
    let link = temp.0.join("link");
    std::os::unix::fs::symlink("a.sh", &link).unwrap();
    disk::write_atomic(&link, b"through").unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"through");
    std::fs::create_dir(temp.0.join("dir")).unwrap();
    assert!(disk::write_atomic(&temp.0.join("dir"), b"x").is_err());
    assert!(disk::write_atomic(&temp.0.join("none/x"), b"x").is_err());
    assert_eq!(HOST.files().list(&temp.0), ["a.sh", "dir", "link"]);
    assert_eq!(std::fs::metadata(&temp.0).unwrap().permissions().mode() & 0o777, 0o700);
    HOST.remove(&temp.0.join("dir")).unwrap();
    HOST.remove(&temp.0.join("dir")).unwrap();
}

#[tokio::test]
async fn a_failed_write_keeps_the_old_file() {
    let temp = Temp::new();
    let file = temp.file("results.json", "old", 0o600);
    let failed = disk::replace(&file, None, |out| {
        out.write_all(b"new")?;
        Err(std::io::ErrorKind::StorageFull.into())
    });
    assert!(failed.is_err());
    assert_eq!(std::fs::read(&file).unwrap(), b"old");
    assert_eq!(HOST.files().list(&temp.0), ["results.json"]);
}

/// `-o /dev/null` as root does not replace the device with a file.
#[tokio::test]
async fn writing_to_a_pipe_does_not_replace_it() {
    let temp = Temp::new();
    let pipe = temp.0.join("pipe");
    assert_eq!(run(sh(&format!("mkfifo {}", pipe.display()))).await.exit, Exit::Exited(0));
    let at = pipe.clone();
    let reader = std::thread::spawn(move || std::fs::read(at).unwrap());
    disk::write_atomic(&pipe, b"through").unwrap();
    assert!(std::os::unix::fs::FileTypeExt::is_fifo(&std::fs::metadata(&pipe).unwrap().file_type()));
    assert_eq!(reader.join().unwrap(), b"through");
}

/// The longest possible file name.
#[tokio::test]
async fn a_file_with_the_longest_name_is_written() {
    let temp = Temp::new();
    let file = temp.0.join("n".repeat(255));
    disk::write_atomic(&file, b"new").unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"new");
}

fn get(url: &str) -> HttpRequest {
    let (method, url) = ("GET".to_string(), url.to_string());
    HttpRequest { method, url, headers: Vec::new(), body: None, timeout: ms(20_000), max_body: 1000 }
}

/// A server that answers every request with what `answer` returns for its first line.
async fn serve(answer: fn(&str) -> String) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = vec![0; 4096];
                let n = stream.read(&mut request).await.unwrap();
                let request = String::from_utf8_lossy(&request[..n]).into_owned();
                stream.write_all(answer(&request).as_bytes()).await.unwrap();
                if request.contains("/hang") {
                    tokio::time::sleep(BEFORE_SLEEP_ENDS).await;
                }
            });
        }
    });
    base
}

#[tokio::test]
async fn http_is_bounded_and_its_errors_are_classified() {
    let base = serve(|request| {
        let path = request.split(' ').nth(1).unwrap();
        let close = "Connection: close\r\n";
        if let Some(n) = path.strip_prefix("/hop/") {
            let n: u32 = n.parse().unwrap();
            let to = if n == 1 { "/end".to_string() } else { format!("/hop/{}", n - 1) };
            return format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n{close}\r\n");
        }
        match path {
            "/big" => format!("HTTP/1.1 200 OK\r\n{close}Content-Length: 50000\r\n\r\n{}", "x".repeat(50000)),
            "/short" => format!("HTTP/1.1 200 OK\r\n{close}Content-Length: 50\r\n\r\nx"),
            "/hang" => String::new(),
            _ => format!("HTTP/1.1 404 Gone\r\nX-A: 1\r\nX-A: 2\r\n{close}\r\n{request}"),
        }
    })
    .await;
    let ask = async |path: &str| HOST.http(HttpRequest { timeout: STARTED, ..get(&format!("{base}{path}")) }).await;
    let kind = async |path: &str| ask(path).await.unwrap_err().kind;
    let request = HttpRequest { body: Some(b"sent".to_vec()), method: "PUT".into(), ..get(&base) };
    let answer = HOST.http(request).await.unwrap();
    assert_eq!(answer.status, 404);
    assert_eq!(answer.headers.iter().filter(|(n, _)| n == "x-a").count(), 2);
    let body = String::from_utf8(answer.body).unwrap();
    assert!(body.starts_with("PUT / ") && body.ends_with("sent"), "{body}");
    let big = ask("/big").await.unwrap();
    assert_eq!((big.body.len(), big.truncated), (1000, true));
    assert_eq!(ask("/hop/9").await.unwrap().status, 404);
    assert_eq!(kind("/hop/10").await, HttpFaultKind::Redirect);
    assert_eq!(kind("/hang").await, HttpFaultKind::Timeout);
    assert_eq!(kind("/short").await, HttpFaultKind::Body);
    let port = HOST.free_port().unwrap();
    let refused = HOST.http(get(&format!("http://127.0.0.1:{port}/?secret"))).await.unwrap_err();
    assert_eq!(refused.kind, HttpFaultKind::Connect);
    assert!(refused.message.contains("refused") && !refused.message.contains("secret"), "{refused}");
    let tls = HOST.http(get(&base.replace("http:", "https:"))).await.unwrap_err();
    assert_eq!(tls.kind, HttpFaultKind::Tls, "{tls}");
    assert_eq!(HOST.http(get("nonsense")).await.unwrap_err().kind, HttpFaultKind::Other);
}

#[tokio::test(start_paused = true)]
async fn the_fake_host_is_scripted_and_its_time_is_simulated() {
    let host = FakeHost::new();
    host.on_exec("kubectl get", Answer::exit(1));
    host.on_exec("kubectl get", Answer::prints("ready\n").takes(ms(2_000)));
    let ask = async |timeout| {
        let exec = Exec::new("kubectl", "/").args(["get", "pod"]).timeout(timeout);
        host.exec(exec, CancellationToken::new()).await
    };
    assert_eq!(ask(ms(5000)).await.exit, Exit::Exited(1));
    assert_eq!(ask(ms(5000)).await.stdout.text(), "ready");
    assert_eq!(ask(ms(1000)).await.exit, Exit::TimedOut { killed: false });
    assert_eq!(host.elapsed(), ms(3000));
    assert_eq!(host.now().to_string(), "2026-01-01T00:00:03Z");
    let missing = host.exec(Exec::new("helm", "/"), CancellationToken::new()).await.exit;
    assert_eq!(missing, Exit::NotStarted(StartFault::NoSuchProgram("helm".into())));
    assert_eq!(host.log().len(), 4);
}
