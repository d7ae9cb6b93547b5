//! Finds and parses independent test data.
#![allow(dead_code, reason = "each test program uses a part")]

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

pub fn every_char() -> impl Iterator<Item = char> {
    '\0'..=char::MAX
}

/// Returns a file that a dependency of this workspace ships with its own tests.
pub fn crate_file(package: &str, version: &str, file: &str) -> String {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let host = if cfg!(target_arch = "aarch64") { "aarch64-unknown-linux-gnu" } else { "x86_64-unknown-linux-gnu" };
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--locked", "--filter-platform", host])
        .output()
        .expect("cargo metadata");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let manifest = metadata["packages"]
        .as_array()
        .and_then(|all| all.iter().find(|one| one["name"] == package && one["version"] == version))
        .and_then(|one| one["manifest_path"].as_str())
        .unwrap_or_else(|| panic!("{package} {version} is not a dependency"));
    read(PathBuf::from(manifest).with_file_name(file))
}

pub fn debian_file(package: &str, path: &str) -> String {
    let path = PathBuf::from(path);
    assert!(path.exists(), "no {}: install the Debian package {package}", path.display());
    read(path)
}

fn read(path: PathBuf) -> String {
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Splits a line of the Unicode Character Database into its fields, without its comment. Returns None if it has none.
pub fn fields(line: &str) -> Option<Vec<&str>> {
    let data = line.split('#').next().unwrap_or_default().trim();
    (!data.is_empty() && !data.starts_with('@')).then(|| data.split(';').map(str::trim).collect())
}

/// Parses `0041 0301`; returns None for surrogates.
pub fn from_hex(codes: &str) -> Option<String> {
    codes.split_whitespace().map(|code| u32::from_str_radix(code, 16).ok().and_then(char::from_u32)).collect()
}
