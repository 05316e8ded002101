//! Compares the rehearsal of setup and verify (`effects::rehearse`) with bash: if it concludes that verify passes after
//! setup, it does. The tasks are composed at random from parts, with a fixed seed; `GEVALS_REHEARSALS` sets a larger
//! number of them.
#![cfg(all(feature = "run", target_os = "linux"))]
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test looks at the world from outside")]

#[path = "support/world.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod world;

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use proptest::{
    prelude::Rng,
    test_runner::{RngAlgorithm, TestRng},
};
use serde_json::Value;
use world::World;

const FILES: &[&str] = &[
    "printf '%s\\n' red 'two  three' x.y > \"$W/a\"",
    "printf '%s' red > \"$W/a\"",
    "cat > \"$W/b\" <<'EOF'\nBlue $X\n10\n9\nEOF",
    "X=red\ncat > \"$W/b\" <<EOF\n$X green\nEOF",
    "echo red >> \"$W/a\"",
    "for i in Zoe adam '' 10; do echo \"$i\" >> \"$W/b\"; done",
    "rm -f \"$W/a\"",
    "cp \"$W/a\" \"$W/b\" || true",
    "mv \"$W/b\" \"$W/a\" || true",
    "touch \"$W/a\"",
    "echo '{\"a\": 1, \"b\": [1, 2, 3], \"c\": {\"d\": \"x\"}, \"t\": true}' > \"$W/j\"",
    "echo '{\"items\": [{\"n\": \"x\", \"v\": 2}, {\"n\": \"y\", \"v\": 10}], \"a\": 1.0, \"c\": null}' > \"$W/j\"",
];
const REPOSITORY: &str = "git init -q -b main \"$W/r\"\ncd \"$W/r\"\ngit config user.email a@example.com\ngit config user.name a\necho x > f\ngit add f\ngit commit -qm one";
const GIT: &[&str] = &[
    "echo y >> f",
    "git add f\ngit commit -qm two",
    "git checkout -q -b fix",
    "git checkout -q main",
    "git tag v1",
    "git branch old",
    "mkdir -p d && echo z > d/g\ngit add -A\ngit commit -qm 'add d/g'",
    "git rm -q f\ngit commit -qm gone",
    "git mv f h\ngit commit -qm moved",
    "git merge -q fix",
    "git revert --no-edit HEAD",
    "git reset -q --hard",
    "git commit -q --allow-empty -m empty",
    "git clone -q . \"$W/k\"",
    "rm -rf \"$W/r\"",
];
const TABLES: &str = "sqlite3 \"$W/x.db\" \"create table o (id integer primary key, s text, n int); create table p (id integer primary key autoincrement, q real unique)\"";
const SQL: &[&str] = &[
    "insert into o (s, n) values ('open', 1), ('Open', 2), (null, 3)",
    "insert into o (id, s) values (5, 'void'), (7, 'it''s')",
    "insert into o (s) values ('open')",
    "update o set s = 'done' where n > 1",
    "delete from o where s = 'open'",
    "delete from o",
    "insert into p (q) values (1.5), (2)",
    "insert into o (s, n) values (10, 10), ('9', 9)",
    "create index i on o (s)",
    "drop table p",
];
const LOOKS: &[&str] = &[
    "cat \"$W/a\"",
    "cat \"$W/b\"",
    "grep -c red \"$W/a\"",
    "grep -E '[[:digit:]]+' \"$W/b\"",
    "grep -E '\\d' \"$W/b\"",
    "grep 'x\\.y' \"$W/a\"",
    "grep -vx red \"$W/a\"",
    "grep -iw blue \"$W/b\"",
    "wc -l < \"$W/a\"",
    "sort \"$W/b\"",
    "sort -n \"$W/b\"",
    "sort -u \"$W/a\" | wc -l",
    "head -1 \"$W/b\"",
    "tail -n +2 \"$W/b\"",
    "tail -1 \"$W/a\"",
    "cut -d' ' -f2 \"$W/a\"",
    "tr -d '\\n' < \"$W/a\"",
    "sed 's/e/E/g' \"$W/a\"",
    "awk '{print $2}' \"$W/a\"",
    "xargs < \"$W/b\"",
    "jq .a \"$W/j\"",
    "jq -r .c.d \"$W/j\"",
    "jq -e '.a == 1' \"$W/j\"",
    "jq '.b | length' \"$W/j\"",
    "jq -e '.items | length == 2' \"$W/j\"",
    "jq -r '.items[] | select(.n == \"x\") | .v' \"$W/j\"",
    "jq '.c // \"none\"' \"$W/j\"",
    "jq -e 'any(.items[]; .v == 10)' \"$W/j\"",
];
const GIT_LOOKS: &[&str] = &[
    "cat \"$W/r/f\"",
    "git -C \"$W/r\" show HEAD:f",
    "git -C \"$W/r\" show main:d/g",
    "git -C \"$W/r\" log -1 --format=%s",
    "git -C \"$W/r\" rev-list --count HEAD",
    "git -C \"$W/r\" branch --show-current",
    "git -C \"$W/r\" branch --list fix",
    "git -C \"$W/r\" tag",
    "git -C \"$W/r\" status --porcelain",
    "git -C \"$W/r\" ls-files",
    "git -C \"$W/r\" rev-parse -q --verify v1",
    "git -C \"$W/r\" diff --quiet -- f",
    "git -C \"$W/r\" log --format=%s main",
    "cat \"$W/k/f\"",
    "ls \"$W/k\"",
];
const QUERIES: &[&str] = &[
    "select count(*) from o",
    "select count(*) from o where s = 'open'",
    "select s from o",
    "select s from o order by s",
    "select id from o",
    "select s from o where id = 1",
    "select max(n) from o",
    "select sum(n) from o",
    "select count(s) from o",
    "select e from o",
    "select count(*) from p",
    "select q from p",
    "select count(*) from o where n > 2",
    "select count(*) from o where s > '9'",
    "select count(*) from o where not s = 'open'",
    "select s from o order by n limit 1",
    "select id, s from o where n is null",
];

struct Drawn(TestRng);

impl Drawn {
    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.0.next_u32()).unwrap() % most
    }

    fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }
}

fn bash(script: &str, folder: &Path) -> (bool, String) {
    let mut bash = Command::new("bash");
    bash.args(["-c", script]).current_dir("/").env("W", folder).env("GIT_CONFIG_GLOBAL", "/dev/null");
    let ended = bash.output().unwrap();
    (ended.status.success(), String::from_utf8_lossy(&ended.stdout).trim_end_matches('\n').to_owned())
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Returns a setup, and a check for verify that usually passes.
fn drawn(draw: &mut Drawn, has_sqlite: bool, folder: &Path) -> (String, String) {
    let kind = draw.below(if has_sqlite { 3 } else { 2 });
    let mut lines = vec!["mkdir -p \"$W\"".to_owned()];
    match kind {
        0 => lines.extend((0..=draw.below(4)).map(|_| draw.of(FILES).to_owned())),
        1 => {
            lines.push(REPOSITORY.to_owned());
            lines.extend((0..draw.below(6)).map(|_| draw.of(GIT).to_owned()));
        }
        _ => {
            lines.push(TABLES.to_owned());
            lines.extend((0..=draw.below(3)).map(|_| format!("sqlite3 \"$W/x.db\" \"{}\"", draw.of(SQL))));
        }
    }
    let look = match kind {
        0 => draw.of(LOOKS).to_owned(),
        1 => draw.of(GIT_LOOKS).to_owned(),
        _ => format!("sqlite3 \"$W/x.db\" \"{}\"", draw.of(QUERIES)),
    };
    let setup = lines.join("\n");
    bash(&setup, folder);
    let (_, found) = bash(&look, folder);
    let wanted = quoted(&if draw.below(4) > 0 { found } else { draw.of(&["", "1", "red", "x"]).to_owned() });
    let options = draw.of(&["", "set -e\n", "set -euo pipefail\n"]);
    let check = match draw.below(6) {
        0 => format!("[ \"$({look})\" = {wanted} ]"),
        1 => format!("V=$({look})\nif [ \"$V\" != {wanted} ]; then echo \"$V\" >&2; exit 1; fi"),
        2 => format!("{look} > /dev/null"),
        3 => format!("{look} | grep -qxF -- {wanted}"),
        4 => format!("same() {{ local got; got=$({look}); [ \"$got\" = \"$1\" ]; }}\nsame {wanted} || exit 1"),
        _ => format!("V=$({look}) || exit 1\n[ -n \"$V\" ]"),
    };
    (setup, format!("{options}{check}"))
}

#[test]
fn what_passes_in_a_rehearsal_passes_in_bash() {
    let count: usize = std::env::var("GEVALS_REHEARSALS").ok().map_or(240, |count| count.parse().unwrap());
    let has_sqlite = Command::new("sqlite3").arg("--version").output().is_ok();
    if !has_sqlite {
        eprintln!("NOT RUN: rehearsals of databases, for want of sqlite3");
    }
    let mut draw = Drawn(TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let world = World::new(&[]);
    let mut drawn_tasks = Vec::new();
    for nth in 0..count {
        let folder = world.path(&format!("w{nth}"));
        let (setup, verify) = drawn(&mut draw, has_sqlite, &folder);
        let (passes, _) = bash(&verify, &folder);
        let _ = fs::remove_dir_all(&folder);
        let step = |script: &str| format!("    - command: {{shell: bash, run: {}}}\n", Value::from(script));
        world.write(
            &format!("tasks/{nth}.yaml"),
            &format!(
                "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: t{nth}}}\nspec:\n  env: {{W: \"/tmp/w-{{random.id}}\"}}\n  prompt: Change what lies in {{env.W}} as the colleagues have asked.\n  setup:\n{}  verify:\n{}  cleanup:\n    - command: {{run: rm -rf \"$W\"}}\n",
                step(&setup),
                step(&verify),
            ),
        );
        drawn_tasks.push((setup, verify, passes));
    }
    let ran = world.run(&["check", "--no-cache", "--format", "json", "tasks"]);
    let told: Value = serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}", ran.err));
    let passes_at_once = |finding: &&Value| finding["message"].as_str().unwrap().starts_with("verify passes in what");
    let places = told["diagnostics"].as_array().unwrap().iter().filter(passes_at_once).flat_map(|finding| {
        let others = finding["places"].as_array().into_iter().flatten();
        others.chain([finding]).map(|place| place["path"].as_str().unwrap().to_owned())
    });
    let found: BTreeSet<usize> =
        places.map(|path| path.trim_start_matches("tasks/").trim_end_matches(".yaml").parse().unwrap()).collect();
    let wrong: Vec<&usize> = found.iter().filter(|nth| !drawn_tasks[**nth].2).collect();
    assert!(wrong.is_empty(), "does not pass:\n{}\n-- verify\n{}", drawn_tasks[*wrong[0]].0, drawn_tasks[*wrong[0]].1);
    // A rehearsal that concludes nothing for any task would be correct as well.
    assert!(found.len() * 20 > count, "{} of {count}", found.len());
}
