//! Bad options are refused with an error that names the value and the expected values.

use workload::micro::Op;
use workload::{AnyWorkload, WorkloadSpec};

fn words(spec: WorkloadSpec) -> String {
    spec.build().expect_err("a specification that is wrong").to_string()
}

#[test]
fn wrong_options_are_named() {
    let micro = || WorkloadSpec::new("micro", 2);
    let tpcb = || WorkloadSpec::new("tpcb", 2);
    let cases = [
        (
            WorkloadSpec { multisite: Some(-1.0), ..micro() },
            "--multisite -1 is out of range: expected 0 to 100",
        ),
        (
            WorkloadSpec { multisite: Some(100.1), ..tpcb() },
            "--multisite 100.1 is out of range: expected 0 to 100",
        ),
        (
            WorkloadSpec { multisite: Some(f64::NAN), ..micro() },
            "--multisite NaN is out of range: expected 0 to 100",
        ),
        (WorkloadSpec { rows: Some(0), ..micro() }, "--rows 0 is out of range: expected 1 to 10000"),
        (
            WorkloadSpec { rows: Some(51), dataset: Some(101), op: Some(Op::Update), ..micro() },
            "--rows 51 is out of range: expected 1 to 50",
        ),
        (WorkloadSpec { skew: Some(-0.5), ..micro() }, "--skew -0.5 is out of range: expected 0 to 10"),
        (
            WorkloadSpec { skew: Some(f64::INFINITY), ..micro() },
            "--skew inf is out of range: expected 0 to 10",
        ),
        (
            WorkloadSpec { dataset: Some(1), ..micro() },
            "--dataset 1 is out of range: expected 2 to 1099511627776",
        ),
        (WorkloadSpec { scale: Some(0), ..micro() }, "--scale 0 is out of range: expected 1 to 65536"),
        (WorkloadSpec { scale: Some(0), ..tpcb() }, "--scale 0 is out of range: expected 1 to 65536"),
        (tpcb().with("accounts", 0), "--accounts 0 is out of range: expected 1 to 10000000"),
        (tpcb().with("tellers", 0), "--tellers 0 is out of range: expected 1 to 1000"),
        (WorkloadSpec { rows: Some(3), ..tpcb() }, "--rows does not apply to tpcb: leave it out"),
        (micro().with("remote", "teller"), "--remote does not apply to micro: leave it out"),
        (tpcb().with("remote", "branch"), "--remote branch: expected account or teller"),
        (tpcb().with("accounts", "many"), "--accounts many: expected a whole number from 1 to 10000000"),
    ];
    let unknown = words(WorkloadSpec::new("tpcz", 2));
    assert!(unknown.starts_with("no workload is called \"tpcz\": expected one of micro, tpcb,"), "{unknown}");
    for (spec, expected) in cases {
        assert_eq!(words(spec), expected);
    }
}

#[test]
fn defaults_follow_the_cores_and_scale_overrides_them() {
    let Ok(AnyWorkload::Micro(m)) = WorkloadSpec::new("micro", 24).build() else { panic!("micro") };
    assert_eq!((m.options().sites, m.options().dataset, m.options().rows), (24, 240_000, 10));
    let spec = WorkloadSpec { scale: Some(6), ..WorkloadSpec::new("tpcb", 2) };
    let Ok(AnyWorkload::Tpcb(t)) = spec.build() else { panic!("tpcb") };
    assert_eq!((t.options().branches, t.options().accounts, t.options().multisite), (6, 100_000, 15.0));
}

#[test]
fn a_specification_survives_its_bytes() {
    let spec = WorkloadSpec { op: Some(Op::Update), skew: Some(0.99), ..WorkloadSpec::new("micro", 2) };
    let bytes = postcard::to_stdvec(&spec).unwrap();
    assert_eq!(postcard::from_bytes::<WorkloadSpec>(&bytes).unwrap(), spec);
}
