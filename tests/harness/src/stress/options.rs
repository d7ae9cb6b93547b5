//! The command line.

use anyhow::{Context, Result, bail};

pub struct Options {
    pub seconds: u64,
    pub seed: u64,
}

impl Options {
    /// Reads `--seconds N` and `--seed N`; without a seed every run is a new one.
    pub fn from_args() -> Result<Self> {
        let mut options = Self { seconds: 20, seed: rand::random_range(0..1_000_000) };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut number = || -> Result<u64> {
                let value = args.next().with_context(|| format!("{arg} needs a number"))?;
                value.parse().with_context(|| format!("{arg} {value} is not a number"))
            };
            match arg.as_str() {
                "--seconds" => options.seconds = number()?,
                "--seed" => options.seed = number()?,
                _ => bail!("unknown argument {arg}; known are --seconds N and --seed N"),
            }
        }
        Ok(options)
    }
}
