package fencedlock_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fenced-go/fenced/fencedlock"
	"github.com/fenced-go/fenced/internal/testenv"
)

// worst is the severity of what Check says about name, 0 for nothing.
func worst(t *testing.T, l *fencedlock.Locker, name string) fencedlock.Severity {
	t.Helper()
	r, err := l.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := fencedlock.Report{}
	for _, f := range r.Findings {
		if f.Name == name {
			found.Findings = append(found.Findings, f)
			if !strings.Contains(r.String(), f.Text) {
				t.Errorf("the report lacks %v", f)
			}
		}
	}
	return found.Worst()
}

func TestCheckFindsWhatLosesLocks(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t, "--appendonly", "yes")
	l := locker(t, client(t, srv.Addr()), nil)
	if r, err := l.Check(t.Context()); err != nil || len(r.Findings) != 0 || r.Nodes != 1 {
		t.Errorf("a server without a fault: %v, %v", r, err)
	}
	for _, c := range []struct {
		name           string
		setting, value string
		want           fencedlock.Severity
	}{
		{"eviction", "maxmemory-policy", "volatile-ttl", fencedlock.Notice},
		{"eviction", "maxmemory", "100mb", fencedlock.Critical},
		{"eviction", "maxmemory-policy", "allkeys-lru", fencedlock.Critical},
		{"eviction", "maxmemory-policy", "noeviction", 0},
		{"persistence", "appendfsync", "no", fencedlock.Notice},
		{"persistence", "appendonly", "no", fencedlock.Warning},
		{"persistence", "save", "60 1", fencedlock.Warning},
	} {
		srv.Do(t, "CONFIG", "SET", c.setting, c.value)
		if got := worst(t, l, c.name); got != c.want {
			t.Errorf("%s %s: %v, want %v", c.setting, c.value, got, c.want)
		}
	}
	if n := srv.Do(t, "EXISTS", "fenced:{fencedlock.check}:lock"); n != int64(0) {
		t.Error("Check left a lock")
	}
}

func TestCheckSaysUnknownWhereItMayNotLook(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t)
	l := locker(t, client(t, srv.Addr(), minimal(t, srv, "worker", "fenced:*")), nil)
	for _, name := range []string{"eviction", "persistence", "replicas", "version", "clock"} {
		if got := worst(t, l, name); got != fencedlock.Unknown {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := worst(t, l, "rights"); got != 0 {
		t.Errorf("rights: %v", got)
	}
	less := locker(t, client(t, srv.Addr(), minimal(t, srv, "less", "fenced:*", "set")), nil)
	if got := worst(t, less, "rights"); got != fencedlock.Critical {
		t.Errorf("rights without set: %v", got)
	}
}

func TestCheckFindsReplicasThatNeedNotHaveAWrite(t *testing.T) {
	t.Parallel()
	g := testenv.NewSentinels(t, 1, 1)
	l := locker(t, client(t, g.Master.Addr()), nil)
	if got := worst(t, l, "replicas"); got != fencedlock.Warning {
		t.Errorf("min-replicas-to-write 0: %v", got)
	}
	g.Master.Do(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	if got := worst(t, l, "replicas"); got != 0 {
		t.Errorf("min-replicas-to-write 1: %v", got)
	}
	r, err := locker(t, client(t, g.Replicas[0].Addr()), nil).Check(t.Context())
	if !errors.Is(err, fencedlock.ErrUnavailable) || len(r.Findings) == 0 || r.Findings[0].Name != "role" {
		t.Errorf("a replica: %v, %v", r, err)
	}
}

func TestCheckComparesClocks(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, func(args []string) string {
		switch {
		case strings.EqualFold(args[0], "time"):
			return "*2\r\n$10\r\n1000000000\r\n$1\r\n0\r\n"
		case strings.EqualFold(args[0], "info"):
			return bulk("redis_version:5.0.3\r\nrole:master\r\ncluster_enabled:1\r\n")
		case strings.EqualFold(args[0], "cluster"):
			return bulk("cluster_state:fail\r\ncluster_slots_ok:9000\r\n")
		case strings.EqualFold(args[0], "config"):
			return "-NOPERM no\r\n"
		case args[0] == "evalsha" && args[2] == "3" && len(args) == 8:
			return bulk("released")
		case args[0] == "evalsha" && args[2] == "1":
			return bulk("renewed")
		}
		return bulk("granted 42")
	})
	l := locker(t, client(t, f.addr), nil)
	for name, want := range map[string]fencedlock.Severity{
		"clock": fencedlock.Warning, "version": fencedlock.Critical, "cluster": fencedlock.Critical, "rights": 0,
	} {
		if got := worst(t, l, name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestStrictMakesFindingsAnError(t *testing.T) {
	t.Parallel()
	srv := testenv.NewRedis(t) // without persistence, a Warning
	rdb := client(t, srv.Addr())
	for strict, fails := range map[fencedlock.Severity]bool{
		0: false, fencedlock.Unknown: true, fencedlock.Warning: true, fencedlock.Critical: false,
	} {
		r, err := locker(t, rdb, &fencedlock.Options{Strict: strict}).Check(t.Context())
		var e *fencedlock.CheckError
		if errors.As(err, &e) != fails || errors.Is(err, fencedlock.ErrConfig) != fails || r.Worst() != fencedlock.Warning {
			t.Errorf("strict %v: %v, %v", strict, r, err)
		}
		if fails && !strings.Contains(fmt.Sprint(err), "persistence") {
			t.Errorf("the error is %v", err)
		}
	}
}
