package testenv_test

import (
	"testing"

	"github.com/fenced-go/fenced/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
