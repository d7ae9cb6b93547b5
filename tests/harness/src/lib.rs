//! The demo and the stress run share this.
