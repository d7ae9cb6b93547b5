//! Tells the linker where libpq is. Where PostgreSQL has a folder of its own, its dblink, postgres_fdw and receiver of WAL find its libpq there; one
//! process has one libpq, the first that is loaded. So the library has to name the same: `scripts/build` says where it is, in `CLAIMS_LIBPQ`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CLAIMS_LIBPQ");
    if let Ok(folder) = std::env::var("CLAIMS_LIBPQ") {
        println!("cargo:rustc-link-search=native={folder}");
        println!("cargo:rustc-link-arg-cdylib=-Wl,-rpath,{folder}");
    }
}
