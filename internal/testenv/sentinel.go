package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// SentinelMaster is the name under which sentinels of [NewSentinels] know the
// master.
const SentinelMaster = "fenced"

// Sentinels are a master, its replicas, and the sentinels that watch them. All
// of them know each other by their proxies: cutting one isolates that node from
// the others, too, while its DirectAddr still answers.
type Sentinels struct {
	Master    *Redis
	Replicas  []*Redis
	Sentinels []*Redis
}

// NewSentinels starts a group that notices a dead master after a second,
// and waits until every sentinel sees everybody.
func NewSentinels(tb testing.TB, replicas, sentinels int) *Sentinels {
	tb.Helper()
	g := &Sentinels{}
	g.Master = newNode(tb, nil, func(_, proxy int) []string { return announced(proxy) })
	master := g.Master.Proxy.port.Number
	for range replicas {
		g.Replicas = append(g.Replicas, newNode(tb, nil, func(_, proxy int) []string {
			return append(announced(proxy), "--replicaof", "127.0.0.1", decimal(master))
		}))
	}
	for range sentinels {
		g.Sentinels = append(g.Sentinels, newSentinel(tb, master, sentinels/2+1))
	}
	g.formed(tb, master)
	return g
}

// announced makes a node known by its proxy. Without the delay of 0 the first
// copy of the data waits 5 s for more replicas to come.
func announced(proxy int) []string {
	return []string{
		"--repl-diskless-sync-delay", "0",
		"--replica-announce-ip", "127.0.0.1", "--replica-announce-port", decimal(proxy),
	}
}

func newSentinel(tb testing.TB, master, quorum int) *Redis {
	tb.Helper()
	s := newBareNode(tb, nil, func(c *child, proxy int) []string {
		text := fmt.Sprintf(`port %d
bind 127.0.0.1
protected-mode no
sentinel announce-ip 127.0.0.1
sentinel announce-port %d
sentinel monitor %[3]s 127.0.0.1 %[4]d %[5]d
sentinel down-after-milliseconds %[3]s 1000
sentinel failover-timeout %[3]s 2000
`, c.port.Number, proxy, SentinelMaster, master, quorum)
		conf := filepath.Join(c.dir.path, "sentinel.conf") // which it rewrites
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
		return []string{conf, "--sentinel"}
	})
	// The defaults, 1 to 10 s, are made for production.
	s.Do(tb, "SENTINEL", "DEBUG", "info-period", "100", "ping-period", "100", "publish-period", "100",
		"ask-period", "100", "slave-reconf-timeout", "2000", "min-link-reconnect-period", "100")
	return s
}

func (g *Sentinels) formed(tb testing.TB, master int) {
	tb.Helper()
	for _, r := range g.Replicas {
		Eventually(tb, readyWithin, "the replica has its first copy", func() bool {
			return strings.Contains(fmt.Sprint(r.Do(tb, "INFO", "replication")), "master_link_status:up")
		})
	}
	want := fmt.Sprintf("status=ok,address=127.0.0.1:%d,slaves=%d,sentinels=%d", master, len(g.Replicas), len(g.Sentinels))
	for _, s := range g.Sentinels {
		Eventually(tb, readyWithin, "the sentinel says "+want, func() bool {
			return strings.Contains(fmt.Sprint(s.Do(tb, "INFO", "sentinel")), want)
		})
	}
}
