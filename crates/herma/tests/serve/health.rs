//! The health endpoints for load balancers.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use herma_testkit::{Herma, Launch, PATIENCE};
use serde_json::Value;

/// A process whose files have a size limit that the test sets. At the limit it behaves as on a full disk.
struct Limited {
    herma: Herma,
    _directory: tempfile::TempDir,
}

impl Limited {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("herma");
        let text = format!("#!/bin/sh\ntrap '' XFSZ\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_herma"));
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
        Self { herma: Launch::serve(script).start().await, _directory: directory }
    }

    /// Sets the size limit of its files, in bytes or `unlimited`.
    fn limit(&self, bytes: &str) {
        let mut command = Command::new("prlimit");
        command.arg(format!("--fsize={bytes}:")).arg(format!("--pid={}", self.herma.pid()));
        assert!(command.status().unwrap().success());
    }

    /// Waits until `/health/ready` answers with this status.
    async fn until(&self, status: u16) -> Value {
        let began = Instant::now();
        loop {
            let answer = self.herma.client().get("/health/ready").await;
            if answer.status == status {
                return answer.json();
            }
            assert!(began.elapsed() < PATIENCE, "it still says {}", answer.status);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test]
async fn a_process_that_cannot_write_is_not_ready() {
    let limited = Limited::start().await;
    assert_eq!(limited.until(200).await["status"], "ready");
    limited.limit("1");
    assert_eq!(limited.until(503).await["error"]["code"], "store_unavailable");
    limited.limit("unlimited");
    assert_eq!(limited.until(200).await["status"], "ready");
}
