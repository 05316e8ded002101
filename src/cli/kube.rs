//! `gevals kube`: a disposable Kubernetes control plane.

use std::path::PathBuf;

use super::{complain, print, status};
use crate::cluster::plane;

const EXAMPLES: &str = "\
Examples:
  export KUBECONFIG=$(gevals kube up)     start one, and use it
  gevals run eval.yaml                    run an eval against it
  gevals kube down                        stop it

It needs `etcd` and `kube-apiserver` (and takes `kube-controller-manager` where it is) from the
folder that KUBEBUILDER_ASSETS names, or from the PATH: `setup-envtest use -p path` downloads them,
and prints the folder. It has no nodes: pods never run.

Exit status: 0 started, or stopped; 2 a program is missing, or one runs there already; 3 it did not
start, or did not stop";

/// Start and stop a disposable Kubernetes control plane on this machine.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Start it, and print the path of its kubeconfig when it is ready.
    Up {
        /// Where it keeps its data; made if it is missing.
        #[arg(default_value = ".gevals/kube")]
        folder: PathBuf,
    },
    /// Stop it. Its data stays.
    Down {
        /// Where it keeps its data.
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
                    "nothing runs".to_owned()
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
