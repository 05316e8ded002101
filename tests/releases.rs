//! Extensions that are releases: downloaded from a server, verified, pinned, updated; and `gevals ext`.
#![cfg(all(feature = "run", target_os = "linux"))]

use std::{
    collections::BTreeMap,
    io::Write,
    process::Command,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    http::{StatusCode, Uri, header::LOCATION},
    response::{IntoResponse, Response},
};
use sha2::{Digest, Sha256};

use crate::support::world::{Ran, World};

const MANIFEST: &str = "name: files\nversion: VERSION\npermissions: {read: [/srv]}\nactions:\n- name: make\n  args: {name: {type: string, required: true}}\nchecks:\n- name: read\n  args: {name: {type: string, required: true}}\n  outputs: {version: {type: string}}\n";
/// The one-shot protocol in a shell script: each version returns its version.
const PROGRAM: &str = "#!/bin/sh\necho '{\"success\": true, \"outputs\": {\"version\": \"VERSION\"}}'\n";
const EVAL: &str =
    "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n  taskSets: [{path: t.yaml}]\n";
const TASK: &str = "kind: Task\napiVersion: mcpchecker/v1alpha2\nmetadata: {name: t}\nspec:\n  requires: [{extension: files}]\n  prompt: {inline: Do nothing.}\n  verify:\n    - files.read: {name: a.txt, expect: {version: EXPECTED}}\n";

/// Files by path, as on GitHub; `latest` of a repository leads to a tag.
#[derive(Clone, Default)]
struct Releases(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

impl Releases {
    fn put(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.0.lock().unwrap().insert(format!("/acme/{path}"), bytes.into());
    }

    fn take(&self, path: &str) {
        self.0.lock().unwrap().remove(&format!("/acme/{path}")).unwrap();
    }

    /// Adds a release of `files` in the layout with programs beside a manifest.
    fn release(&self, tag: &str, version: &str) {
        self.release_of("files", tag, version);
    }

    /// Adds the same program as the release of another repository.
    fn release_of(&self, repo: &str, tag: &str, version: &str) {
        let (manifest, program) = (MANIFEST.replace("VERSION", version), PROGRAM.replace("VERSION", version));
        let files = [("extension.yaml", manifest), (&format!("files-{}", platform()), program)];
        let mut sums = String::new();
        for (name, text) in files {
            sums += &format!("{}  {name}\n", digest(text.as_bytes()));
            self.put(&format!("{repo}/releases/download/{tag}/{name}"), text);
        }
        sums += &format!("{}  files-plan9-mips\n{}  files-darwin-arm64\n", "0".repeat(64), "1a".repeat(32));
        self.put(&format!("{repo}/releases/download/{tag}/checksums.sha256"), sums);
        self.put(&format!("{repo}/releases/latest"), tag);
    }

    fn answer(&self, path: &str) -> Response {
        match self.0.lock().unwrap().get(path) {
            Some(tag) if path.ends_with("/latest") => {
                let to = path.replace("/latest", &format!("/tag/{}", String::from_utf8_lossy(tag)));
                (StatusCode::FOUND, [(LOCATION, format!("https://example.org{to}"))]).into_response()
            }
            Some(bytes) => bytes.clone().into_response(),
            None => StatusCode::NOT_FOUND.into_response(),
        }
    }

    /// Serves the files until the end of the test.
    fn serve(&self) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let releases = self.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let app = Router::new().fallback(move |uri: Uri| async move { releases.answer(uri.path()) });
                axum::serve(tokio::net::TcpListener::from_std(listener).unwrap(), app).await.unwrap();
            });
        });
        url
    }
}

fn platform() -> String {
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    format!("linux-{arch}")
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs gevals with this server for releases.
fn run(world: &World, url: &str, args: &[&str]) -> Ran {
    let mut command = world.command(args);
    command.env("GEVALS_GITHUB_URL", url);
    world.start(command).end()
}

/// An address at which nothing listens.
const NOWHERE: &str = "http://127.0.0.1:9";

fn world(expected: &str) -> World {
    World::new(&[("eval.yaml", EVAL), ("t.yaml", &TASK.replace("EXPECTED", expected))])
}

fn program_in_cache(tag: &str) -> String {
    format!(".cache/gevals/extensions/acme/files/{tag}/files-{}", platform())
}

#[test]
fn a_release_is_added_pinned_and_run() {
    let (releases, world) = (Releases::default(), world("1.0.0"));
    releases.release("v1.0.0", "1.0.0");
    let url = releases.serve();
    run(&world, &url, &["ext", "add", "eval.yaml", "github.com/acme/files@v1.0.0"]).expect(
        0,
        &[
            "downloading github.com/acme/files@v1.0.0",
            "trust on first use",
            "added `files` to eval.yaml: make, read",
            "requires: [{extension: files}]",
        ],
    );
    assert_eq!(
        world.read("eval.yaml"),
        EVAL.replace("  agent:", "  extensions:\n    files: {package: github.com/acme/files@v1.0.0}\n  agent:")
    );
    let lock = world.read("gevals.lock");
    let program = digest(PROGRAM.replace("VERSION", "1.0.0").as_bytes());
    for pinned in [&format!("files-{}: {program}", platform()), &format!("files-darwin-arm64: {}", "1a".repeat(32))] {
        assert!(lock.contains(pinned), "{pinned}\n{lock}");
    }
    assert!(!lock.contains("plan9"), "{lock}");

    // From here on, no server is needed.
    run(&world, NOWHERE, &["check", "eval.yaml"]).expect(0, &["no findings"]);
    run(&world, NOWHERE, &["run", "eval.yaml"]).expect(0, &["1 of 1 task passed"]);
    run(&world, NOWHERE, &["ext", "verify", "eval.yaml"])
        .expect(0, &["ok   github.com/acme/files@v1.0.0: v1.0.0 is in the cache"]);
    run(&world, NOWHERE, &["ext", "list"])
        .expect(0, &["files: github.com/acme/files@v1.0.0  locked, v1.0.0, 2 operations"]);
    let described = run(&world, NOWHERE, &["ext", "describe", "files", "--eval", "eval.yaml"]);
    described.expect(
        0,
        &[
            "files@v1.0.0 1.0.0: 2 operations",
            "requests read /srv",
            "read  (verify)",
            "- name: string, required",
            "→ version: string",
        ],
    );
    run(&world, NOWHERE, &["plan", "eval.yaml"]).expect(0, &["files requests read /srv; it is granted nothing"]);
    world.write("t.yaml", &TASK.replace("name: a.txt", "nmae: a.txt"));
    run(&world, NOWHERE, &["check", "eval.yaml"]).expect(1, &["nmae"]);
}

#[test]
fn a_lost_cache_is_restored_only_with_locked_files() {
    let (releases, world) = (Releases::default(), world("1.0.0"));
    releases.release("v1.0.0", "1.0.0");
    let url = releases.serve();
    run(&world, &url, &["ext", "add", "eval.yaml", "github.com/acme/files@v1.0.0"]).expect(0, &[]);
    let lost = || std::fs::remove_dir_all(world.path(".cache")).unwrap();

    lost();
    run(&world, NOWHERE, &["run", "eval.yaml"])
        .expect(3, &["the extension `github.com/acme/files@v1.0.0`: cannot download"]);
    run(&world, &url, &["run", "eval.yaml"])
        .expect(0, &["downloading github.com/acme/files@v1.0.0", "1 of 1 task passed"]);

    // The program in the cache is overwritten.
    world.write(&program_in_cache("v1.0.0"), &PROGRAM.replace("VERSION", "evil"));
    run(&world, NOWHERE, &["ext", "verify", "eval.yaml"])
        .expect(1, &["no   github.com/acme/files@v1.0.0: it was changed in the cache", "but the lock has"]);
    run(&world, NOWHERE, &["run", "eval.yaml"]).expect(3, &["cannot download"]);
    run(&world, &url, &["run", "eval.yaml"]).expect(0, &["1 of 1 task passed"]);

    // The tag is moved, including the checksums.
    lost();
    releases.release("v1.0.0", "evil");
    let (old, new) = (PROGRAM.replace("VERSION", "1.0.0"), PROGRAM.replace("VERSION", "evil"));
    let (old, new) = (digest(old.as_bytes()), digest(new.as_bytes()));
    let said = format!("differs from the lock: its digest is {new}, but the lock has {old}");
    for command in ["run", "lock"] {
        run(&world, &url, &[command, "eval.yaml"]).expect(3, &[&said]);
    }
    // The owner accepts the change.
    run(&world, &url, &["ext", "update", "eval.yaml"]).expect(0, &["is v1.0.0: its files have changed"]);
    run(&world, &url, &["ext", "rollback", "eval.yaml"])
        .expect(3, &[&format!("its digest is {new}, but the lock has {old}")]);
    assert!(world.read("gevals.lock").contains(&new), "a rollback that fails changes nothing");
}

#[test]
fn pins_are_updated_only_on_request() {
    let (releases, world) = (Releases::default(), world("1.0.0"));
    releases.release("v1.0.0", "1.0.0");
    let url = releases.serve();
    run(&world, &url, &["ext", "add", "eval.yaml", "github.com/acme/files"])
        .expect(0, &["github.com/acme/files is v1.0.0"]);
    run(&world, &url, &["ext", "rollback", "eval.yaml"]).expect(1, &["there is nothing to restore"]);

    releases.release("v1.1.0", "1.1.0");
    run(&world, &url, &["lock", "eval.yaml"]).expect(0, &["1 release and 2 operations of 1 extension"]);
    run(&world, NOWHERE, &["run", "eval.yaml"]).expect(0, &["1 of 1 task passed"]);
    run(&world, &url, &["ext", "update", "eval.yaml"]).expect(0, &["github.com/acme/files is v1.1.0; it was v1.0.0"]);
    run(&world, NOWHERE, &["run", "eval.yaml"]).expect(1, &["1.1.0"]);
    run(&world, NOWHERE, &["ext", "rollback", "eval.yaml", "files"])
        .expect(0, &["github.com/acme/files is v1.0.0; it was v1.1.0"]);
    run(&world, NOWHERE, &["run", "eval.yaml"]).expect(0, &["1 of 1 task passed"]);

    let other = "\n# not my.github.com/acme/files\n";
    std::fs::write(world.path("eval.yaml"), world.read("eval.yaml") + other).unwrap();
    run(&world, &url, &["ext", "update", "eval.yaml", "files", "--to", "v1.1.0"])
        .expect(0, &["github.com/acme/files@v1.1.0 is v1.1.0", "changed eval.yaml"]);
    assert!(world.read("eval.yaml").ends_with(other), "a longer name is another package");
    assert!(world.read("eval.yaml").contains("files: {package: github.com/acme/files@v1.1.0}"));
    run(&world, NOWHERE, &["check", "eval.yaml"]).expect(0, &["no findings"]);
    let before = (world.read("eval.yaml"), world.read("gevals.lock"));
    run(&world, &url, &["ext", "update", "eval.yaml", "files", "--to", "v9"])
        .expect(3, &["there is no release v9 with extension.yaml"]);
    assert_eq!((world.read("eval.yaml"), world.read("gevals.lock")), before, "what fails changes nothing");
    run(&world, &url, &["ext", "update", "eval.yaml", "flies"]).expect(2, &["the eval has no extension `flies`"]);
}

#[test]
fn all_extensions_of_an_eval_roll_back_together() {
    let (releases, world) = (Releases::default(), world("1.0.0"));
    let url = releases.serve();
    for tag in ["v1.0.0", "v1.1.0"] {
        releases.release(tag, &tag[1..]);
        releases.release_of("more", tag, &tag[1..]);
        releases.release_of("newest", tag, &tag[1..]);
        if tag == "v1.0.0" {
            run(&world, &url, &["ext", "add", "eval.yaml", "github.com/acme/files@v1.0.0"])
                .expect(0, &["added `files`"]);
            run(&world, &url, &["ext", "add", "eval.yaml", "github.com/acme/more@v1.0.0"]).expect(0, &["added `more`"]);
            run(&world, &url, &["ext", "add", "eval.yaml", "github.com/acme/newest"]).expect(0, &["added `newest`"]);
        }
    }
    let before = world.read("eval.yaml");
    for name in ["files", "more"] {
        run(&world, &url, &["ext", "update", "eval.yaml", name, "--to", "v1.1.0"]).expect(0, &["changed eval.yaml"]);
    }
    run(&world, &url, &["ext", "update", "eval.yaml", "newest"]).expect(0, &["it was v1.0.0"]);
    run(&world, NOWHERE, &["run", "eval.yaml"]).expect(1, &["1.1.0"]);
    run(&world, NOWHERE, &["ext", "rollback", "eval.yaml"]).expect(
        0,
        &[
            "github.com/acme/files@v1.0.0 is v1.0.0; it was v1.1.0",
            "github.com/acme/more@v1.0.0 is v1.0.0; it was v1.1.0",
            "github.com/acme/newest is v1.0.0; it was v1.1.0",
        ],
    );
    assert_eq!(world.read("eval.yaml"), before);
    run(&world, NOWHERE, &["run", "eval.yaml"]).expect(0, &["1 of 1 task passed"]);
}

#[test]
fn an_extension_is_added_to_any_form_of_a_map() {
    let (releases, world) = (Releases::default(), world("1.0.0"));
    releases.release("v1.0.0", "1.0.0");
    let url = releases.serve();
    for form in ["  extensions:  # of this eval\n", "  extensions: {}\n", "  extensions: # none\n    {timeout: 5s}\n"] {
        world.write("eval.yaml", &EVAL.replace("config:\n", &format!("config:\n{form}")));
        run(&world, &url, &["ext", "add", "eval.yaml", "github.com/acme/files"]).expect(0, &["added `files`"]);
        run(&world, NOWHERE, &["check", "eval.yaml"]).expect(0, &["no findings"]);
    }
    run(&world, &url, &["ext", "add", "eval.yaml", "github.com/acme/files", "--as", "timeout"])
        .expect(2, &["`timeout` is an option of `extensions:` and cannot be an alias"]);
}

#[test]
fn invalid_releases_are_not_kept() {
    let (releases, world) = (Releases::default(), world("1.0.0"));
    releases.release("v1.0.0", "1.0.0");
    let url = releases.serve();
    let add = |package: &str| run(&world, &url, &["ext", "add", "eval.yaml", package]);
    let of = |file: &str| format!("files/releases/download/v1.0.0/{file}");
    let program = format!("files-{}", platform());

    releases.put(&of(&program), "#!/bin/sh\n");
    add("github.com/acme/files@v1.0.0")
        .expect(3, &[&format!("`{program}` of v1.0.0 differs from its checksums.sha256")]);
    releases.put(
        &of("checksums.sha256"),
        format!("{}  extension.yaml\n", digest(MANIFEST.replace("VERSION", "1.0.0").as_bytes())),
    );
    add("github.com/acme/files@v1.0.0")
        .expect(3, &[&format!("`{program}` of v1.0.0 is not listed in its checksums.sha256")]);
    releases.put(&of("checksums.sha256"), "oops\n");
    add("github.com/acme/files@v1.0.0").expect(3, &["has a line that is not a digest and a name: `oops`"]);
    releases.take(&of("checksums.sha256"));
    add("github.com/acme/files@v1.0.0").expect(0, &["it has no `checksums.sha256`: its files were not verified"]);
    world.write("eval.yaml", EVAL);

    releases.release("v2.0.0", "2.0.0");
    releases.take(&format!("files/releases/download/v2.0.0/{program}"));
    add("github.com/acme/files@v2.0.0").expect(3, &["the release v2.0.0 has no program for this machine", &program]);
    releases.put("files/releases/download/v2.0.0/extension.yaml", "name: ../../evil\n");
    add("github.com/acme/files@v2.0.0").expect(3, &["cannot be a file name: `../../evil`"]);
    add("github.com/acme/others").expect(3, &["`acme/others` has no release"]);
    add("github.com/acme").expect(2, &["is not a release: write `github.com/OWNER/REPO@VERSION`"]);
    assert_eq!(world.read("eval.yaml"), EVAL, "what fails changes nothing");
    run(&world, NOWHERE, &["check", "eval.yaml"]).expect(1, &["the eval does not declare the extension `files`"]);
}

/// The layout of the existing tool: one archive per platform, whose program uses JSON-RPC.
#[test]
fn the_program_in_an_archive_is_unpacked_and_queried() {
    let (releases, world) = (Releases::default(), world("rpc"));
    let url = releases.serve();
    let program = r#"#!/usr/bin/env python3
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    result = {"success": True, "outputs": {"version": "rpc"}}
    if request["method"] == "initialize":
        params = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"], "additionalProperties": False}
        operation = {"params": params, "outputs": {"version": {"type": "string"}}, "phases": ["verify"]}
        result = {"name": "files", "version": "3", "protocolVersion": "0.0.1", "operations": {"read": operation}}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
    if request["method"] == "shutdown":
        break
"#;
    let name = format!("files-{}", platform());
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    archive.start_file(name.as_str(), zip::write::SimpleFileOptions::default()).unwrap();
    archive.write_all(program.as_bytes()).unwrap();
    let archive = archive.finish().unwrap().into_inner();
    releases.put(&format!("files/releases/download/v3/{name}.zip"), archive);
    releases.put(&format!("files/releases/download/v3/{name}.zip.bundle"), "{}");
    run(&world, &url, &["ext", "add", "eval.yaml", "github.com/acme/files@v3"]).expect(
        0,
        &["its files were not verified; its signature was not verified", "added `files` to eval.yaml: read"],
    );
    run(&world, NOWHERE, &["check", "eval.yaml"]).expect(0, &["no findings"]);
    run(&world, NOWHERE, &["run", "eval.yaml"]).expect(0, &["1 of 1 task passed"]);
    world.write(&program_in_cache("v3"), &program.replace("rpc", "evil"));
    run(&world, NOWHERE, &["ext", "verify", "eval.yaml"]).expect(1, &["differs from its archive"]);
    run(&world, NOWHERE, &["run", "eval.yaml"]).expect(3, &["cannot download"]);
    run(&world, &url, &["run", "eval.yaml"]).expect(0, &["1 of 1 task passed"]);
}

/// Task sets from a repository, with a server that has another name here.
#[test]
fn tasks_come_from_a_repository() {
    let theirs = "kind: Task\napiVersion: mcpchecker/v1alpha2\nmetadata: {name: theirs}\nspec:\n  requires: [{mcpServer: notes}]\n  setup:\n    - script: {file: ./setup.sh}\n  prompt: {inline: Do nothing.}\n  verify:\n    - notes.notes_list: {args: {}, expect: {isError: false}}\n";
    let eval = "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n  mcpConfigFile: mcp.yaml\n  sources:\n    shared: {repo: ./upstream, ref: v1, serverMapping: {notes: demo}}\n  taskSets: [{source: shared, glob: \"tasks/*.yaml\"}]\n";
    let world = World::new(&[
        ("eval.yaml", eval),
        ("mcp.yaml", "mcpServers:\n  demo: {command: gevals, args: [demo-server], enableAllTools: true}\n"),
        ("upstream/tasks/t.yaml", theirs),
        ("upstream/tasks/setup.sh", "#!/bin/sh\ntrue\n"),
    ]);
    world.shell("chmod +x upstream/tasks/setup.sh").expect(0, &[]);
    let git = |args: &str| {
        let line = format!("cd upstream && git -c user.name=a -c user.email=a@example.org {args}");
        world.shell(&line).expect(0, &[])
    };
    let commit = |tag: &str| {
        git("init -q");
        git("add -A");
        git(&format!("commit -q -m {tag}"));
        git(&format!("tag -f -a -m {tag} {tag}"));
    };
    commit("v1");
    world.run(&["check", "eval.yaml"]).expect(1, &["the source `shared` is not pinned by a lock file"]);
    world.run(&["lock", "eval.yaml"]).expect(0, &["fetching ./upstream@v1", "1 source"]);
    world.run(&["check", "eval.yaml"]).expect(0, &["no findings"]);
    world.run(&["plan", "eval.yaml"]).expect(0, &["theirs"]);
    let folder = std::fs::read_dir(world.path(".gevals/sources/upstream")).unwrap().next().unwrap().unwrap().path();
    assert!(folder.join("tasks/t.yaml").exists() && !folder.join(".git").exists());

    // Offline and pinned: the repository changes.
    world.write("upstream/tasks/t.yaml", &theirs.replace("isError: false", "isError: true"));
    commit("v1");
    world.run(&["lock", "eval.yaml"]).expect(0, &[]);
    world.run(&["run", "eval.yaml"]).expect(0, &["1 of 1 task passed"]);
    std::fs::rename(world.path("upstream"), world.path("away")).unwrap();
    world.run(&["run", "eval.yaml"]).expect(0, &["1 of 1 task passed"]);

    // Another machine has the lock, but not the files.
    let text = std::fs::read_to_string(folder.join("tasks/t.yaml")).unwrap();
    std::fs::remove_dir_all(world.path(".gevals/sources")).unwrap();
    world.run(&["check", "eval.yaml"]).expect(1, &["is locked, but has not been fetched", "gevals lock EVAL --fetch"]);
    world.run(&["lock", "eval.yaml", "--fetch"]).expect(3, &["the source `shared`: git fetch"]);
    std::fs::rename(world.path("away"), world.path("upstream")).unwrap();
    world
        .run(&["lock", "eval.yaml", "--fetch"])
        .expect(0, &["fetching ./upstream@v1", "1 source and 0 releases available as locked"]);
    world.run(&["run", "eval.yaml"]).expect(0, &["1 of 1 task passed"]);

    // A file is overwritten.
    std::fs::write(folder.join("tasks/t.yaml"), text.replace("isError: false", "isError: true")).unwrap();
    for command in ["check", "run", "plan"] {
        let code = if command == "check" { 1 } else { 2 };
        world.run(&[command, "eval.yaml"]).expect(code, &["the source `shared` does not match the lock file"]);
    }
    world.run(&["lock", "eval.yaml", "--fetch"]).expect(0, &["fetching"]);
    world.run(&["check", "eval.yaml"]).expect(0, &["no findings"]);

    // The owner updates to the newer commit.
    world.run(&["lock", "eval.yaml", "--update"]).expect(0, &["fetching"]);
    world.run(&["run", "eval.yaml"]).expect(1, &["isError"]);

    // Paths that leave a repository.
    world.write("eval.yaml", &eval.replace("tasks/*.yaml", "../../x/*.yaml"));
    world.run(&["check", "eval.yaml"]).expect(1, &["`../../x/*.yaml` is outside the source `shared`"]);
    world.write("eval.yaml", &eval.replace("ref: v1", "ref: v2"));
    std::os::unix::fs::symlink("/etc/passwd", world.path("upstream/tasks/link.yaml")).unwrap();
    world.run(&["lock", "eval.yaml"]).expect(3, &["./upstream has no `v2`".trim_start_matches("./")]);
    commit("v2");
    world.run(&["lock", "eval.yaml"]).expect(3, &["contains a symbolic link that leads outside it: tasks/link.yaml"]);
    world.write(
        "eval.yaml",
        &eval.replace("  sources:", "  extensions: {allowedSources: [\"github.com/*\"]}\n  sources:"),
    );
    world.run(&["check", "eval.yaml"]).expect(1, &["`./upstream` does not match any pattern in `allowedSources`"]);
}

#[test]
fn a_new_extension_passes_its_own_tests() {
    let world = World::new(&[]);
    world.run(&["ext", "init", "my-files"]).expect(0, &["wrote my-files/my-files", "gevals ext conformance my-files"]);
    // The shell reads a variable of GitHub there, with the name of the project filled in around it.
    let workflow = world.read("my-files/.github/workflows/release.yml");
    assert!(
        workflow.contains("gh release create \"${GITHUB_REF#refs/tags/}\" my-files-* extension.yaml"),
        "{workflow}"
    );
    let tested = Command::new("python3").args(["-m", "unittest"]).current_dir(world.path("my-files")).output().unwrap();
    let said = String::from_utf8_lossy(&tested.stderr);
    assert!(tested.status.success() && said.contains("Ran 2 tests"), "{said}");
    world.run(&["ext", "conformance", "my-files"]).expect(0, &["ok   S5", "all tested requirements are met"]);
    world.run(&["lock", "my-files/eval.yaml"]).expect(0, &["3 operations of 1 extension"]);
    world.run(&["check", "my-files"]).expect(0, &["no findings"]);
    world.run(&["run", "my-files/eval.yaml"]).expect(0, &["1 of 1 task passed"]);
    world.run(&["ext", "init", "my-files"]).expect(2, &["already exists: nothing was written"]);
    world.run(&["ext", "init", "My_Files"]).expect(2, &["is not a valid name of an extension"]);
}

#[test]
fn a_new_extension_in_rust_passes_its_own_tests() {
    let world = World::new(&[]);
    world.run(&["ext", "init", "my-files", "--language", "rust"]).expect(0, &["cargo test && ./build.sh"]);
    let cargo = |args: &[&str]| {
        let folder = world.path("my-files");
        let ran = Command::new(env!("CARGO"))
            .args(args)
            .arg("--offline")
            .current_dir(&folder)
            .env("CARGO_TARGET_DIR", folder.join("target"))
            .output();
        let ran = ran.unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{said}");
        said
    };
    assert!(cargo(&["test"]).contains("2 passed"));
    std::fs::copy(world.path("my-files/target/debug/my-files"), world.path("my-files/my-files")).unwrap();
    world.run(&["ext", "conformance", "my-files"]).expect(0, &["all tested requirements are met"]);
    world.run(&["run", "my-files/eval.yaml"]).expect(0, &["1 of 1 task passed"]);
}

/// A program that follows the session protocol, except where a test overrides it.
const PEER: &str = r#"#!/usr/bin/env python3
import json, sys
PARAMS = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
MANIFEST = {"name": "x", "version": "1", "protocolVersion": "0.0.1", "operations": {"do": {"params": PARAMS, "phases": ["setup"]}}}
def say(value): print(json.dumps(value), flush=True)
def answer(request, **members): say({"jsonrpc": "2.0", "id": request["id"], **members})
def unknown(request): answer(request, error={"code": -32601, "message": "unknown method"})
def execute(request):
    params = request["params"]
    if params["operation"] not in MANIFEST["operations"]:
        answer(request, error={"code": -32602, "message": "unknown operation"})
    else:
        answer(request, result={"success": "name" in params["args"], "error": "name is missing"})
def rubbish(line): pass
def notified(request): pass
def shutdown(request): answer(request, result={}); sys.exit(0)
def closed(): pass
CHANGE
for line in sys.stdin:
    try:
        request = json.loads(line)
    except ValueError:
        rubbish(line)
        continue
    method = request["method"]
    if "id" not in request: notified(request)
    elif method == "initialize": answer(request, result=MANIFEST)
    elif method == "execute": execute(request)
    elif method == "shutdown": shutdown(request)
    else: unknown(request)
closed()
"#;

#[test]
fn each_faulty_program_violates_exactly_its_requirement() {
    let world = World::new(&[]);
    let wrong = [
        ("", ""),
        ("MANIFEST['protocolVersion'] = '2'", "J2"),
        ("MANIFEST['operations']['do']['params'] = {'type': 'nothing'}", "J3"),
        ("MANIFEST['operations']['do']['phases'] = ['always']", "J4"),
        ("def unknown(request): answer(request, result={})", "J5"),
        (
            "_execute = execute\ndef execute(request):\n    if request['params']['operation'] != 'do': answer(request, result={'success': True})\n    else: _execute(request)",
            "J6",
        ),
        (
            "_execute = execute\ndef execute(request):\n    if request['params']['operation'] == 'do': answer(request, result={'success': True})\n    else: _execute(request)",
            "J7",
        ),
        ("def rubbish(line): print(line, flush=True)", "J11"),
        ("def notified(request): say({'jsonrpc': '2.0', 'id': None, 'result': {}})", "J10"),
        ("def shutdown(request): answer(request, result={}); sys.exit(1)", "J12"),
        ("def closed():\n    import time\n    time.sleep(60)", "J13"),
    ];
    for (change, id) in wrong {
        world.program("x", &PEER.replace("CHANGE", change));
        let ran = world.run(&["ext", "conformance", "bin/x", "--json"]);
        let list: Vec<serde_json::Value> = serde_json::from_str(&ran.out).unwrap();
        let failed: Vec<_> =
            list.iter().filter(|r| r["outcome"] == "failed").map(|r| r["id"].as_str().unwrap()).collect();
        let expected: Vec<&str> = Some(id).filter(|id| !id.is_empty()).into_iter().collect();
        assert_eq!(failed, expected, "{change}\n{}", ran.out);
        assert_eq!(ran.code, Some(i32::from(!id.is_empty())));
    }
    // The program exits on invalid input, so all later requirements fail as well.
    world.program("x", &PEER.replace("CHANGE", "def rubbish(line): sys.exit(3)"));
    world.run(&["ext", "conformance", "bin/x"]).expect(1, &["no   J9"]);
    let bundled = world.run(&["ext", "conformance", "builtin:kubernetes"]);
    bundled.expect(0, &["ok   J13", "all tested requirements are met"]);
    world.program("x", "#!/bin/sh\nexit 0\n");
    world
        .run(&["ext", "conformance", "bin/x"])
        .expect(1, &["no   J1", "-    J5", "it did not start", "1 requirement is not met"]);
    world.run(&["ext", "conformance", "bin/y"]).expect(2, &["does not exist"]);
}

#[test]
fn denied_or_unsubstituted_packages_are_not_run() {
    let (releases, world) = (Releases::default(), world("1.0.0"));
    releases.release("v1.0.0", "1.0.0");
    let url = releases.serve();
    run(&world, &url, &["ext", "add", "eval.yaml", "github.com/acme/files@v1.0.0"]).expect(0, &[]);
    let eval = world.read("eval.yaml");
    let program = digest(PROGRAM.replace("VERSION", "1.0.0").as_bytes());
    let denials = [
        ("{package: \"github.com/acme/*\", reason: stolen}", true),
        ("{package: github.com/acme/files@<1.0.1, reason: stolen}", true),
        ("{package: github.com/acme/files@<1.0.0, reason: stolen}", false),
        ("{package: github.com/acme/other, reason: stolen}", false),
        (&format!("{{digest: \"sha256:{program}\", reason: stolen}}"), true),
        (&format!("{{digest: {}, reason: stolen}}", "a2".repeat(32)), false),
    ];
    for (denial, hits) in denials {
        world.write("eval.yaml", &eval.replace("    files:", &format!("    deny: [{denial}]\n    files:")));
        let ran = run(&world, NOWHERE, &["run", "eval.yaml"]);
        match hits {
            true => ran.expect(2, &["`github.com/acme/files@v1.0.0` is denied: stolen"]),
            false => ran.expect(0, &["1 of 1 task passed"]),
        };
    }
    world.write("eval.yaml", &eval.replace("acme/files@v1.0.0", "mcpchecker/kubernetes-extension@v0.0.3"));
    run(&world, NOWHERE, &["ext", "list"]).expect(0, &["means `builtin:kubernetes`"]);
    world.write("eval.yaml", &world.read("eval.yaml").replace("    files:", "    substitute: never\n    files:"));
    run(&world, NOWHERE, &["ext", "list"]).expect(0, &["not locked"]);
    run(&world, NOWHERE, &["check", "eval.yaml"])
        .expect(1, &["error[release-not-locked]", "kubernetes-extension@v0.0.3`"]);
}

/// A package is allowed or denied independently of how its reference is spelled.
#[test]
fn other_spellings_of_a_package_do_not_bypass_allow_and_deny() {
    let world = world("1.0.0");
    let eval = world.read("eval.yaml");
    let found = |extensions: &str, sources: &str, says: &str| {
        let text = format!("  extensions:\n    {extensions}\n{sources}  agent:");
        world.write("eval.yaml", &eval.replacen("  agent:", &text, 1));
        let ran = run(&world, NOWHERE, &["check", "--format", "concise", "eval.yaml"]);
        ran.out.contains(says)
    };
    for (pattern, package, is_allowed) in [
        ("./ext/*", "./ext/files", true),
        ("./ext/*", "././ext/files", true),
        ("./ext/*", "file://ext/files", true),
        ("file://ext/*", "./ext/files", true),
        ("./ext/*", "./ext/../../evil", false),
        ("./ext/*", "~/ext/files", false),
        ("~/ext/*", "~/ext/files", true),
        ("~/ext/*", "~/ext/../evil", false),
        ("github.com/acme/*", "github.com/acme/files@v1", true),
        ("github.com/acme/*", "https://github.com/acme/files@v1", true),
        ("github.com/acme/*", "file://github.com/acme/files", false),
        ("github.com/acme/*", "file://github.com/acme/../../../evil", false),
        ("github.com/acme/*", "./github.com/acme/files", false),
        ("*", "./evil", true),
    ] {
        let extensions = format!("allowedSources: [\"{pattern}\"]\n    other: {{package: \"{package}\"}}");
        let refused = found(&extensions, "", &format!("`{package}` does not match any pattern in `allowedSources`"));
        assert_eq!(!refused, is_allowed, "{pattern} {package}");
    }
    for (repo, is_allowed) in [
        ("github.com/acme/tasks", true),
        ("https://github.com/acme/tasks", true),
        ("https://github.com/acme/../evil/tasks", false),
        ("file://github.com/acme/tasks", false),
    ] {
        let sources = format!("  sources:\n    more: {{repo: \"{repo}\", ref: main}}\n");
        let allowed = "allowedSources: [\"github.com/acme/*\"]";
        assert_eq!(
            !found(allowed, &sources, &format!("`{repo}` does not match any pattern in `allowedSources`")),
            is_allowed,
            "{repo}"
        );
        let denied = "deny: [{package: \"github.com/acme/*\", reason: stolen}]";
        assert!(found(denied, &sources, &format!("`{repo}` is denied: stolen")) || !is_allowed, "{repo}");
    }
    for (pattern, package) in [
        ("github.com/mcpchecker/*", "github.com/mcpchecker/kubernetes-extension@v0.0.3"),
        ("github.com/mcpchecker/*@<0.0.4", "github.com/mcpchecker/kubernetes-extension@v0.0.3"),
        ("builtin:kubernetes", "github.com/mcpchecker/kubernetes-extension@v0.0.3"),
        ("./ext/files", "././ext/files"),
        ("./ext/files", "file://ext/files"),
    ] {
        let extensions =
            format!("deny: [{{package: \"{pattern}\", reason: stolen}}]\n    other: {{package: \"{package}\"}}");
        assert!(found(&extensions, "", &format!("`{package}` is denied: stolen")), "{pattern} {package}");
    }
    let newer = "deny: [{package: \"github.com/mcpchecker/*@<0.0.3\", reason: stolen}]\n    other: {package: github.com/mcpchecker/kubernetes-extension@v0.0.3}";
    assert!(!found(newer, "", "is denied"));
}

/// Evals in one directory share its lock: locking one of them may break another.
#[test]
fn a_lock_reports_other_evals_that_it_breaks() {
    let world = World::new(&[("t.yaml", &TASK.replace("EXPECTED", "1.0.0"))]);
    world.write("u.yaml", &world.read("t.yaml").replace("name: t}", "name: u}").replace("files.read", "files.other"));
    let manifest = MANIFEST.replace("VERSION", "1.0.0");
    for (name, task, manifest) in
        [("a", "t", manifest.clone()), ("b", "u", manifest.replace("name: read", "name: other"))]
    {
        world.write(&format!("{name}/extension.yaml"), &manifest);
        world.write(&format!("{name}/files"), &PROGRAM.replace("VERSION", "1.0.0"));
        let own = format!("  extensions:\n    files: {{package: ./{name}}}\n  agent:");
        let eval = EVAL.replace("name: e}", &format!("name: {name}}}")).replace("t.yaml", &format!("{task}.yaml"));
        world.write(&format!("{name}.yaml"), &eval.replace("  agent:", &own));
    }
    world.run(&["lock", "a.yaml"]).expect(0, &["2 operations of 1 extension", "warning: this breaks b.yaml"]);
    let again = world.run(&["lock", "a.yaml"]).expect(0, &["2 operations of 1 extension"]);
    assert!(!again.err.contains("this breaks"), "{}", again.err);
    world.run(&["lock", "b.yaml"]).expect(0, &["warning: this breaks a.yaml", "not match the lock file"]);
}

/// The digest of a program decides, wherever the program is.
#[test]
fn a_local_program_is_denied_by_its_digest() {
    let program = PROGRAM.replace("VERSION", "1.0.0");
    let world = World::new(&[("t.yaml", &TASK.replace("EXPECTED", "1.0.0"))]);
    world.write("ext/files/extension.yaml", &MANIFEST.replace("VERSION", "1.0.0"));
    world.write("ext/files/files", &program);
    let path = world.path("ext/files/files");
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let eval = |digest: &str| {
        let extensions = format!(
            "  extensions:\n    deny: [{{digest: \"sha256:{digest}\", reason: stolen}}]\n    files: {{package: ./ext/files}}\n"
        );
        world.write("eval.yaml", &EVAL.replace("  agent:", &format!("{extensions}  agent:")));
    };
    eval(&"a2".repeat(32));
    run(&world, NOWHERE, &["lock", "eval.yaml"]).expect(0, &["2 operations"]);
    run(&world, NOWHERE, &["run", "eval.yaml"]).expect(0, &["1 of 1 task passed"]);
    // First a changed manifest, then one that was never locked.
    let (manifest, lock) = (world.read("ext/files/extension.yaml"), world.read("gevals.lock"));
    world.write("ext/files/extension.yaml", &manifest.replace("1.0.0", "1.0.1"));
    let newer = digest(manifest.replace("1.0.0", "1.0.1").as_bytes());
    run(&world, NOWHERE, &["run", "eval.yaml"])
        .expect(2, &["`./ext/files` does not match the lock file", &newer, &digest(manifest.as_bytes())]);
    world.write("ext/files/extension.yaml", &manifest);
    std::fs::remove_file(world.path("gevals.lock")).unwrap();
    let in_ci = |args: &[&str]| {
        world
            .start({
                let mut command = world.command(args);
                command.env("CI", "true");
                command
            })
            .end()
    };
    run(&world, NOWHERE, &["run", "eval.yaml"]).expect(0, &["1 of 1 task passed"]);
    in_ci(&["run", "eval.yaml"])
        .expect(2, &["no lock pins the extension `./ext/files`, and in CI a run only starts pinned ones"]);
    let text = world.read("eval.yaml");
    world.write("eval.yaml", &text.replace("    deny:", "    allowedSources: [\"./ext/*\"]\n    deny:"));
    in_ci(&["run", "eval.yaml"]).expect(0, &["1 of 1 task passed"]);
    world.write("eval.yaml", &text);
    world.write("gevals.lock", &lock);
    in_ci(&["run", "eval.yaml"]).expect(0, &["1 of 1 task passed"]);
    eval(&digest(program.as_bytes()));
    run(&world, NOWHERE, &["run", "eval.yaml"])
        .expect(2, &["`./ext/files` is denied: stolen", "this is the digest of `files`"]);
    eval(&digest(MANIFEST.replace("VERSION", "1.0.0").as_bytes()));
    run(&world, NOWHERE, &["run", "eval.yaml"]).expect(2, &["this is the digest of `extension.yaml`"]);
}

/// A plan shows which program runs in place of another.
#[test]
fn every_format_of_a_plan_shows_substituted_programs() {
    let world = World::new(&[
        ("eval.yaml", EVAL),
        (
            "t.yaml",
            "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: t}\nspec:\n  imports: [{package: github.com/mcpchecker/kubernetes-extension@v0.0.3, as: k8s}]\n  prompt: Do nothing.\n  verify:\n    - k8s.resource-absent: {resource: pod/a}\n",
        ),
    ]);
    for format in ["tree", "json", "dot", "mermaid", "svg", "html", "markdown"] {
        let plan = world.run(&["plan", "eval.yaml", "--format", format]);
        // Markdown escapes the colon, and Mermaid writes it as an entity.
        let text = plan.out.replace("\\:", ":").replace("#58;", ":").replace("&#58;", ":");
        assert_eq!(plan.code, Some(0), "{format}: {}", plan.err);
        assert!(text.contains("builtin:kubernetes"), "{format}: {text}");
    }
}
