//! The containers of a rehearsal, as created with `docker run`.

use std::collections::{BTreeMap, BTreeSet};

use super::{Done, OPEN};

/// Containers by name.
#[derive(Default)]
pub struct Containers {
    all: BTreeMap<String, Container>,
    gone: BTreeSet<String>,
    lost: bool,
}

#[derive(Default)]
struct Container {
    image: String,
    running: Option<bool>,
    restart: String,
    env: Vec<String>,
    labels: BTreeMap<String, String>,
}

impl Containers {
    pub fn forget(&mut self) {
        self.lost = true;
    }

    /// Whether a command line may change containers.
    pub fn changes(args: &[&str]) -> bool {
        const LOOKS: [&str; 12] =
            ["inspect", "ps", "logs", "port", "images", "version", "info", "top", "stats", "exec", "pull", "build"];
        !args.first().is_some_and(|verb| LOOKS.contains(verb))
    }

    pub fn run(&mut self, args: &[&str]) -> Done {
        match self.done(args) {
            Some(done) => done,
            None => {
                self.lost |= Self::changes(args);
                Done::unknown()
            }
        }
    }

    fn done(&mut self, args: &[&str]) -> Option<Done> {
        let quiet = Some(Done { status: Some(true), out: None });
        let args = if args.first() == Some(&"container") { &args[1..] } else { args };
        let (verb, rest) = args.split_first()?;
        match *verb {
            "run" | "create" => {
                const ALONE: [&str; 9] = ["-d", "--detach", "--rm", "-it", "-i", "-t", "--init", "--privileged", "-P"];
                let (mut name, mut container) = (None, Container { restart: "no".to_owned(), ..Container::default() });
                let mut words = rest.iter();
                while let Some(word) = words.next() {
                    let (option, value) = match word.split_once('=').filter(|_| word.starts_with("--")) {
                        Some((option, value)) => (option, value),
                        None if ALONE.contains(word) => continue,
                        None if word.starts_with('-') => (*word, *words.next()?),
                        None => {
                            container.image = (*word).to_owned();
                            break;
                        }
                    };
                    match option {
                        "--name" => name = Some(value.to_owned()),
                        "--restart" => container.restart = value.split(':').next()?.to_owned(),
                        "-e" | "--env" => container.env.push(value.to_owned()),
                        "-l" | "--label" => {
                            let (key, value) = value.split_once('=').unwrap_or((value, ""));
                            container.labels.insert(key.to_owned(), value.to_owned());
                        }
                        _ => {}
                    }
                }
                let detached = rest.iter().any(|word| matches!(*word, "-d" | "--detach"));
                // A container with its own command may already have exited.
                container.running =
                    if *verb == "create" { Some(false) } else { (detached && words.next().is_none()).then_some(true) };
                if let Some(name) = name {
                    self.gone.remove(&name);
                    self.all.insert(name, container);
                }
                quiet
            }
            "rm" | "stop" | "kill" | "start" | "restart" | "pause" | "unpause" => {
                for name in rest.iter().filter(|word| !word.starts_with('-')) {
                    match *verb {
                        "rm" => {
                            self.all.remove(*name);
                            self.gone.insert((*name).to_owned());
                        }
                        _ => {
                            let running = match *verb {
                                "stop" | "kill" => Some(false),
                                "start" | "restart" => Some(true),
                                _ => None,
                            };
                            self.all.get_mut(*name)?.running = running;
                        }
                    }
                }
                quiet
            }
            "inspect" if !self.lost => {
                let (mut format, mut names) = (None, Vec::new());
                let mut words = rest.iter();
                while let Some(word) = words.next() {
                    match word.split_once('=').filter(|_| word.starts_with("--")) {
                        Some(("--format", value)) => format = Some(value),
                        _ if matches!(*word, "-f" | "--format") => format = Some(*words.next()?),
                        _ if word.starts_with('-') => return None,
                        _ => names.push(*word),
                    }
                }
                let [name] = names.as_slice() else { return None };
                let Some(container) = self.all.get(*name) else {
                    return self.gone.contains(*name).then(|| Done { status: Some(false), out: Some(String::new()) });
                };
                let out = format.and_then(|format| container.field(format)).map(|text| text + "\n");
                Some(Done { status: Some(true), out })
            }
            "ps" if !self.lost => {
                let all = rest.iter().any(|word| matches!(*word, "-a" | "--all"));
                let names = rest
                    .iter()
                    .any(|word| word.contains("{{.Names}}") && word.trim_start_matches("--format=") == "{{.Names}}");
                let running = |container: &&Container| all || container.running == Some(true);
                let shown = |(name, _): (&String, &Container)| format!("{name}\n");
                let known = self.all.iter().filter(|(_, container)| running(container)).map(shown).collect::<String>();
                let plain = rest
                    .iter()
                    .all(|word| matches!(*word, "-a" | "--all" | "--format" | "{{.Names}}" | "--format={{.Names}}"));
                (names && plain).then(|| Done { status: Some(true), out: Some(format!("{OPEN}{known}")) })
            }
            _ => None,
        }
    }
}

impl Container {
    fn field(&self, format: &str) -> Option<String> {
        let inner = format.trim().strip_prefix("{{")?.strip_suffix("}}")?.trim();
        if let Some(key) = inner.strip_prefix("index .Config.Labels \"").and_then(|rest| rest.strip_suffix('"')) {
            return self.labels.get(key).cloned();
        }
        Some(match inner {
            ".State.Running" => self.running?.to_string(),
            ".State.Status" => if self.running? { "running" } else { return None }.to_owned(),
            ".HostConfig.RestartPolicy.Name" => self.restart.clone(),
            ".Config.Image" => self.image.clone(),
            _ => return None,
        })
    }
}
