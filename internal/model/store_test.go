package model_test

import (
	"testing"

	"github.com/fenced-go/fenced/internal/model"
)

func TestClaimsKeepEveryRuleUnderAnyLock(t *testing.T) {
	t.Parallel()
	keeps(t, model.Store{Tenures: 4, Arbitrary: true, Highest: 4, Claims: true, Holders: true}.Model())
}

func TestClaimsAndFloorsKeepEveryRuleWhenRedisLosesItsData(t *testing.T) {
	t.Parallel()
	keeps(t, model.Store{Tenures: 3, Losses: 2, Floor: true, Claims: true, Holders: true}.Model())
}

func TestWithoutLossesTheFirstUseIsEarlyEnough(t *testing.T) {
	t.Parallel()
	keeps(t, model.Store{Tenures: 4, Holders: true}.Model())
}

func TestEachPartOfTheStoreIsNeeded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		store model.Store
		rules []model.Rule
	}{
		"no claims, any lock": {
			model.Store{Tenures: 3, Arbitrary: true, Highest: 3, Holders: true},
			[]model.Rule{model.Unique, model.Rising, model.NoStaleWrite},
		},
		"no claims, Redis loses its data": {
			model.Store{Tenures: 3, Losses: 1, Floor: true, Holders: true},
			[]model.Rule{model.Unique, model.Rising, model.NoStaleWrite},
		},
		"holders of one fence not told apart": {
			model.Store{Tenures: 3, Arbitrary: true, Highest: 3, Claims: true},
			[]model.Rule{model.Unique, model.Rising, model.NoStaleWrite, model.NoLostUpdate},
		},
		"no floor": {
			model.Store{Tenures: 3, Losses: 1, Claims: true, Holders: true},
			[]model.Rule{model.Served},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, rule := range c.rules {
				breaks(t, c.store.Model(), rule)
			}
		})
	}
}
