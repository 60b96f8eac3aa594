package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/plural"
)

func Seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}

// Rate has three digits at least: 0.0123, 9.5, 8320.
func Rate(perSecond float64) string {
	if perSecond >= 1000 {
		return fmt.Sprintf("%.0f", perSecond)
	}
	return fmt.Sprintf("%.3g", perSecond)
}

// Speculated reports what became of drafts.
func Speculated(s engine.Stats) string {
	return fmt.Sprintf("%s drafted, %.0f %% of them accepted; %.2f tokens of a sequence a decode step",
		plural.Count(s.DraftedTokens, "token"), 100*float64(s.AcceptedTokens)/float64(s.DraftedTokens), s.TokensAStep())
}

// WriteReport writes a report to the file of --report, if it is given. It returns err, or why that failed.
func WriteReport(path string, report any, err error) error {
	if path == "" {
		return err
	}
	if writeErr := writeReportFile(path, report); writeErr != nil {
		return writeErr
	}
	return err
}

func writeReportFile(path string, report any) error {
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	if dir := filepath.Dir(path); dir != "." {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("--report: %w", err)
		}
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	return nil
}

func PrintJSON(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		_, err = fmt.Fprintf(w, "%s\n", text)
	}
	return err
}
