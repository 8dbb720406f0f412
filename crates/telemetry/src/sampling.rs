//! Which traces are recorded.

use herma_model::{TraceContext, TraceId};

/// How it is decided whether a trace is recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// The part of all traces that is recorded, from 0 to 1.
    pub ratio: f64,
    /// Whether a caller's own decision counts more.
    pub follows_caller: bool,
}

impl Sampling {
    /// Decides about a trace. All processes with the same ratio decide alike.
    pub(crate) fn takes(&self, trace: TraceId, caller: Option<&TraceContext>) -> bool {
        match caller.filter(|_| self.follows_caller) {
            Some(caller) => caller.is_sampled(),
            None => self.takes_by_ratio(trace),
        }
    }

    fn takes_by_ratio(&self, trace: TraceId) -> bool {
        // As OpenTelemetry does it: the last 63 bits of the id, below a bound.
        let [.., a, b, c, d, e, f, g, h] = *trace.bytes();
        let place = u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1;
        self.ratio >= 1.0 || (place as f64) < self.ratio * (1_u64 << 63) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(end: u64) -> TraceId {
        TraceId::new((u128::from(end) | 1 << 100).to_be_bytes()).unwrap()
    }

    #[test]
    fn the_id_decides_by_the_ratio() {
        let sampling = |ratio| Sampling { ratio, follows_caller: true };
        for (ratio, end, taken) in [
            (1.0, u64::MAX, true),
            (0.0, 0, false),
            (0.5, u64::MAX / 2 - 4096, true),
            (0.5, u64::MAX / 2 + 4096, false),
            (0.001, u64::MAX, false),
        ] {
            assert_eq!(sampling(ratio).takes(trace(end), None), taken, "{ratio} of {end}");
        }
    }

    #[test]
    fn a_caller_decides_only_if_it_is_followed() {
        let caller = |flags| {
            let parent = format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flags}");
            TraceContext::parse(&parent, None)
        };
        for (ratio, follows_caller, flags, taken) in
            [(0.0, true, "01", true), (1.0, true, "00", false), (0.0, false, "01", false), (1.0, false, "00", true)]
        {
            let taken_here = Sampling { ratio, follows_caller }.takes(trace(7), caller(flags).as_ref());
            assert_eq!(taken_here, taken, "{ratio} {follows_caller} {flags}");
        }
    }
}
