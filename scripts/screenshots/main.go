// Command screenshots takes pictures with a headless Chromium:
//
//	go run ./scripts/screenshots PAGE.html FOLDER         # of a whole page, in both themes and three widths
//	go run ./scripts/screenshots PAGE.html PICTURE.png    # of its top, for documentation; dark where the name ends so
//	go run ./scripts/screenshots TERMINAL.log PICTURE.png # of what "script" recorded of a terminal
//
// It needs a Chromium: apt-get install chromium-headless-shell. scripts/screenshots/docs.sh makes the pictures of the
// docs.
package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: screenshots PAGE.html|TERMINAL.log FOLDER|PICTURE.png")
		os.Exit(2)
	}
	if err := take(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		os.Exit(1)
	}
}

func take(page, to string) error {
	page, err := filepath.Abs(page)
	if err != nil {
		return err
	}
	if filepath.Ext(page) == ".log" {
		made, err := terminal(page)
		if err != nil {
			return err
		}
		defer os.Remove(made)
		page = made
	}
	browser, err := chromium()
	if err != nil {
		return err
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(browser), chromedp.NoSandbox)...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate("file://"+page)); err != nil {
		return err
	}
	if filepath.Ext(to) == ".png" {
		return shootTop(ctx, to)
	}
	if err := os.MkdirAll(to, 0o777); err != nil {
		return err
	}
	name := strings.TrimSuffix(filepath.Base(page), filepath.Ext(page))
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{380, 800, 1200} {
			picture := filepath.Join(to, fmt.Sprintf("%s-%s-%d.png", name, theme, width))
			if err := shoot(ctx, theme, width, picture); err != nil {
				return err
			}
			fmt.Println(picture)
		}
	}
	return nil
}

// The size of pictures of a page's top, which shows the start of a report.
const topWidth, topHeight = 1200, 1000

// shootTop takes a picture of the page down to topHeight, or to its end.
func shootTop(ctx context.Context, to string) error {
	theme := "light"
	if strings.HasSuffix(to, "-dark.png") {
		theme = "dark"
	}
	if err := view(ctx, theme, topWidth, 100); err != nil {
		return err
	}
	height, err := chromedp.Run(ctx, chromedp.Evaluate[int64]("document.documentElement.scrollHeight"))
	if err != nil {
		return err
	}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(topWidth, min(height, topHeight))); err != nil {
		return err
	}
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return err
	}
	return os.WriteFile(to, picture, 0o666)
}

var (
	escape = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")
	note   = regexp.MustCompile(`(?m)^Script (started|done) on .*\n?`) // script's own
)

// terminal makes a page from a recording: each line as it stood when the next one started.
func terminal(log string) (page string, err error) {
	data, err := os.ReadFile(log)
	if err != nil {
		return "", err
	}
	text := note.ReplaceAllString(escape.ReplaceAllString(string(data), ""), "")
	var lines []string
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		parts := strings.Split(strings.TrimRight(line, "\r "), "\r")
		lines = append(lines, html.EscapeString(parts[len(parts)-1]))
	}
	page = strings.TrimSuffix(log, ".log") + ".html"
	return page, os.WriteFile(page, []byte(`<meta charset="utf-8"><body style="margin:0;background:#1c1f24"><pre style="`+
		`width:100ch;white-space:pre-wrap;word-break:break-all;margin:0;padding:16px 20px;color:#e4e6e9;`+
		`font:15px/1.4 'DejaVu Sans Mono',monospace">`+
		strings.TrimSpace(strings.Join(lines, "\n"))+"</pre>"), 0o666)
}

// view shows the page in a theme and a size.
func view(ctx context.Context, theme string, width, height int64) error {
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, height)); err != nil {
		return err
	}
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}})
	return err
}

// shoot takes a picture of the whole page.
func shoot(ctx context.Context, theme string, width int64, to string) error {
	if err := view(ctx, theme, width, 900); err != nil {
		return err
	}
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		return err
	}
	return os.WriteFile(to, picture, 0o666)
}

func chromium() (string, error) {
	for _, name := range []string{"chromium-headless-shell", "headless-shell", "chromium", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no Chromium is installed; run apt-get install chromium-headless-shell")
}
