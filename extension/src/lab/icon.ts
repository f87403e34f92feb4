/** A cassette; its colour follows the theme. */
import { LabIcon } from '@jupyterlab/ui-components';

export const cassetteIcon = new LabIcon({
  name: 'cassette-lab:cassette',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3 jp-icon-selectable" fill="#616161" fill-rule="evenodd">
    <path d="M3 4h18a2 2 0 0 1 2 2v12a2 2 0 0 1-2 2H3a2 2 0 0 1-2-2V6a2 2 0 0 1 2-2zm0 2v12h2.5l1.5-3h10l1.5 3H21V6z"/>
    <path d="M7.5 8a3 3 0 1 0 0 6h9a3 3 0 1 0 0-6zm0 2a1 1 0 1 1 0 2 1 1 0 0 1 0-2zm9 0a1 1 0 1 1 0 2 1 1 0 0 1 0-2z"/>
  </g>
</svg>`,
});
