//! The command line.

use anyhow::{Context, Result, bail};

const KNOWN: &str = "--seconds N, --seed N, --node DIRECTORY:PORT and --theft";

pub struct Options {
    pub seconds: u64,
    pub seed: u64,
    /// More nodes of a Citus cluster, besides the one of the environment. The tables are distributed over all of them.
    pub nodes: Vec<String>,
    /// Whether a claim is stolen by hand, which the judge must notice.
    pub theft: bool,
}

impl Options {
    /// Parses the command line. Without a seed it chooses one.
    pub fn from_args() -> Result<Self> {
        let seed = rand::random_range(0..1_000_000);
        let mut options = Self { seconds: 20, seed, nodes: Vec::new(), theft: false };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--seconds" => options.seconds = number(&arg, args.next())?,
                "--seed" => options.seed = number(&arg, args.next())?,
                "--node" => options.nodes.push(args.next().with_context(|| format!("{arg} needs DIRECTORY:PORT"))?),
                "--theft" => options.theft = true,
                _ => bail!("unknown argument {arg}; known are {KNOWN}"),
            }
        }
        Ok(options)
    }
}

fn number(arg: &str, value: Option<String>) -> Result<u64> {
    let value = value.with_context(|| format!("{arg} needs a number"))?;
    value.parse().with_context(|| format!("{arg} {value} is not a number"))
}
