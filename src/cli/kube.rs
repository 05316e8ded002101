//! `gevals kube`: a disposable Kubernetes control plane.

use std::path::PathBuf;

use super::{complain, print, status};
use crate::cluster::plane;

const EXAMPLES: &str = "\
Examples:
  export KUBECONFIG=$(gevals kube up)     start one and use it
  gevals run eval.yaml                    run an eval against it
  gevals kube down                        stop it

This needs `etcd` and `kube-apiserver` (and uses `kube-controller-manager` if available) from the
directory in KUBEBUILDER_ASSETS or from PATH: `setup-envtest use -p path` downloads them and prints
the directory. The control plane has no nodes: pods never run.

Exit status: 0 started or stopped; 2 a program is missing, or one is already running there; 3 it did
not start or stop";

/// Start and stop a disposable Kubernetes control plane on this machine.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Start a control plane, and print the path of its kubeconfig when it is ready.
    Up {
        /// The data directory; created if it does not exist.
        #[arg(default_value = ".gevals/kube")]
        folder: PathBuf,
    },
    /// Stop a control plane. Its data is kept.
    Down {
        /// The data directory.
        #[arg(default_value = ".gevals/kube")]
        folder: PathBuf,
    },
}

pub fn main(args: &Args) -> u8 {
    match &args.command {
        Command::Up { folder } => {
            let usage = !plane::missing().is_empty();
            match plane::up(folder) {
                Ok(kubeconfig) => {
                    print(&format!("{}\n", kubeconfig.display()));
                    status::OK
                }
                Err(why) => {
                    complain(&why);
                    if usage || why.contains("already") { status::USAGE } else { status::BROKEN }
                }
            }
        }
        Command::Down { folder } => match plane::down(folder) {
            Ok(stopped) => {
                let what = if stopped.is_empty() {
                    "nothing is running".to_owned()
                } else {
                    format!("stopped {}", stopped.join(", "))
                };
                print(&format!("{}: {what}\n", folder.display()));
                status::OK
            }
            Err(why) => {
                complain(&why);
                status::BROKEN
            }
        },
    }
}
