package fenced_test

import (
	"fmt"
	"testing"

	"github.com/fenced-go/fenced/internal/testenv"
)

// Any node may be harmed at any time, so that now and then there is no majority,
// and now and then one that has forgotten.
func TestFaultsOnAQuorumAndPostgres(t *testing.T) {
	t.Parallel()
	const size = 5
	r := newFaultRun(t)
	postgres := testenv.NewPostgres(t)
	e := r.withPostgres(postgres)
	for i := range size {
		lane := fmt.Sprint("redis ", i)
		node := testenv.NewRedis(t)
		r.harm(processFaults(t, lane, node)...)
		r.harm(memoryFaults(t, lane, node, nil, r.resources)...)
		r.harm(networkFaults("way to "+lane, node.Proxy)...)
		r.setup.Redis = append(r.setup.Redis, node.Addr())
	}
	r.setup.Quorum = true
	r.crew(nil)
	r.run()
	r.judge(journal(t, postgres, e.db))
}
